// SPDX-License-Identifier: Apache-2.0
//
// Readers of data sets take files: a fuzzer writes its bytes to some, in a folder that
// goes when the program ends.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/input.h"
#include "topknot/error.h"

namespace topknot::fuzz {

class Files {
 public:
  Files() {
    std::string name = std::filesystem::temp_directory_path() / "topknot-fuzz-XXXXXX";
    require(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~Files() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

  std::filesystem::path write(const std::string& name,
                              std::span<const std::uint8_t> bytes) {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    require(static_cast<bool>(out.flush()));
    return file;
  }
  void remove(const std::string& name) { std::filesystem::remove(folder_ / name); }

 private:
  std::filesystem::path folder_;
};

/// The parts of an input, which a byte 0xFF, in no text, stands between. The last part has
/// all that is left; those that are not there are empty.
inline std::vector<std::span<const std::uint8_t>> parts(
    std::span<const std::uint8_t> bytes, std::size_t count) {
  std::vector<std::span<const std::uint8_t>> all(count);
  for (std::size_t p = 0; p < count; ++p) {
    const auto end =
        p + 1 == count ? bytes.end() : std::find(bytes.begin(), bytes.end(), 0xFF);
    all[p] = {bytes.begin(), end};
    bytes = {end == bytes.end() ? end : end + 1, bytes.end()};
  }
  return all;
}

inline std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Runs `read`, which may refuse what it finds, in a sentence and in no other way.
template <typename Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const DataError& error) {
    require(std::string_view(error.what()).size() > 10);
  }
}

}  // namespace topknot::fuzz

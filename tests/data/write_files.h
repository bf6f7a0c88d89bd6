// SPDX-License-Identifier: Apache-2.0
//
// Files in a temporary folder, whole and broken.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"

namespace topknot::data {

using ByteString = std::vector<std::uint8_t>;

/// A folder that goes when the object does.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "topknot-XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no temporary folder can be made");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Writes a file, and the folders it is in.
inline void write_file(const std::filesystem::path& file, std::string_view bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

inline void write_file(const std::filesystem::path& file, const ByteString& bytes) {
  write_file(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// ---- breaking them

/// A file's bytes.
inline ByteString bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Calls `open` with `file` cut to every length below its own, then puts it back.
template <typename Open>
void with_every_cut(const std::filesystem::path& file, Open open, std::size_t step = 1) {
  const ByteString whole = bytes_of(file);
  for (std::size_t length = 0; length < whole.size(); length += step) {
    write_file(file, ByteString(whole.begin(),
                                whole.begin() + static_cast<std::ptrdiff_t>(length)));
    open(length);
  }
  write_file(file, whole);
}

/// Calls `open` with `file` changed in one to four random bytes, `times` times, then puts it
/// back.
template <typename Open>
void with_flipped_bytes(const std::filesystem::path& file, int times, Open open) {
  const ByteString whole = bytes_of(file);
  core::Random random(7);
  for (int t = 0; t < times; ++t) {
    ByteString broken = whole;
    for (std::uint64_t n = random.below(4) + 1; n > 0; --n)
      broken[random.below(broken.size())] ^=
          static_cast<std::uint8_t>(1 + random.below(255));
    write_file(file, broken);
    open();
  }
  write_file(file, whole);
}

}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "data/file.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <system_error>

#include "topknot/error.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{16} << 20;
constexpr std::size_t kMostQuoted = 40;

std::size_t plain_size(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) throw DataError(about(file) + "there is no such file.");
  if (!fs::is_regular_file(status)) throw DataError(about(file) + "is not a file.");
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) throw DataError(about(file) + "cannot be read (" + error.message() + ").");
  return static_cast<std::size_t>(size);
}

void read_into(const fs::path& file, std::span<char> bytes) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw DataError(about(file) + "cannot be opened: is it readable for you?");
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (static_cast<std::size_t>(in.gcount()) != bytes.size())
    throw DataError(about(file) + "only " + std::to_string(in.gcount()) + " of " +
                    std::to_string(bytes.size()) + " bytes can be read.");
}

std::size_t bounded_size(const fs::path& file, std::size_t most) {
  const std::size_t size = plain_size(file);
  if (size > most)
    throw DataError(about(file) + "has " + std::to_string(size) +
                    " bytes, which is more than the " + std::to_string(most) +
                    " that such a file can have.");
  return size;
}

// Reads gzip, and plain files too, which zlib passes through.
class Unpacker {
 public:
  explicit Unpacker(const fs::path& file)
      : path_(file), file_(gzopen(file.c_str(), "rb")) {
    if (!file_)
      throw DataError(about(file) + "cannot be opened: is it readable for you?");
  }

  /// Fills `bytes` and returns how many the file still had.
  std::size_t read(std::span<std::uint8_t> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const auto want = static_cast<unsigned>(std::min(kChunk, bytes.size() - done));
      const int got = gzread(file_.get(), bytes.data() + done, want);
      int code = Z_OK;
      std::string message = gzerror(file_.get(), &code);  // "FILE: what"
      if (got < 0 || code < 0)
        throw DataError(about(path_) + "is damaged gzip (" +
                        message.substr(message.rfind(": ") + 2) + ").");
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };
  fs::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace

std::string about(const fs::path& file) { return file.string() + ": "; }

std::string in_quotes(std::string_view text) {
  std::string said = "\"";
  for (const char c : text.substr(0, kMostQuoted))
    said += (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) ? '?' : c;
  // Do not cut a code point of several bytes in two.
  if (text.size() > kMostQuoted) {
    while ((static_cast<unsigned char>(said.back()) & 0xC0) == 0x80) said.pop_back();
    if (static_cast<unsigned char>(said.back()) >= 0xC0) said.pop_back();
    said += "...";
  }
  return said + '"';
}

std::optional<std::size_t> product(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) return std::nullopt;
  return a * b;
}

Bytes read_file(const fs::path& file, std::size_t most) {
  Bytes bytes(bounded_size(file, most));
  read_into(file, {reinterpret_cast<char*>(bytes.data()), bytes.size()});
  return bytes;
}

std::string read_text(const fs::path& file, std::size_t most) {
  std::string text(bounded_size(file, most), '\0');
  read_into(file, text);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

Bytes read_packed(
    const fs::path& file, std::size_t head,
    const std::function<std::size_t(std::span<const std::uint8_t>)>& size_of) {
  const std::size_t size = plain_size(file);
  Unpacker in(file);
  Bytes bytes(head);
  if (in.read(bytes) < head)
    throw DataError(about(file) + "has " + std::to_string(size) +
                    " bytes and ends within its header.");
  const std::size_t all = size_of(bytes);
  // Allocate by what was read, not by what the header promises.
  std::size_t have = head;
  while (have < all) {
    bytes.resize(std::min(all, have + kChunk));
    const std::size_t got = in.read(std::span(bytes).subspan(have));
    have += got;
    if (have < bytes.size())
      throw DataError(about(file) + "its header asks for " + std::to_string(all) +
                      " bytes and it ends after " + std::to_string(have) + ".");
  }
  // This also makes zlib reach the end of the stream and compare the checksum.
  std::uint8_t more = 0;
  if (in.read({&more, 1}) != 0)
    throw DataError(about(file) + "goes on after the " + std::to_string(all) +
                    " bytes that its header asks for.");
  return bytes;
}

}  // namespace topknot::data

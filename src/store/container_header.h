// SPDX-License-Identifier: Apache-2.0
//
// Reads the header of a container token by token, never as a tree, so that no text, however nested,
// takes more memory than a few times its own length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "store/container.h"

namespace topknot::store {

inline constexpr const char* kMetadataKey = "__metadata__";

/// An array is data[begin, end).
struct HeaderEntry {
  Dtype dtype = Dtype::u8;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Header {
  std::map<std::string, HeaderEntry, std::less<>> entries;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Short keys take far more memory than their text, so their number is limited.
inline constexpr std::size_t kMostMetadata = 16384;

/// The bytes that an array takes; nothing when 64 bits cannot count them.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const Shape& shape);

/// The longest header of a file of so many bytes. Reading one takes up to ten times its length,
/// and reading a file may take as much memory as the file once more, and 8 MiB.
constexpr std::uint64_t longest_header(std::uint64_t file_bytes) {
  return (std::uint64_t{3} << 18) + file_bytes / 10;
}

/// Throws DataError unless `text` is an object of entries and nothing else, no name
/// twice, each with as many bytes as its type and shape need.
Header read_header(std::span<const std::byte> text, const std::string& what);

/// Throws DataError unless the entries cover [0, bytes) without gap or overlap.
void require_cover(const std::map<std::string, HeaderEntry, std::less<>>& entries,
                   std::uint64_t bytes, const std::string& what);

}  // namespace topknot::store

// SPDX-License-Identifier: Apache-2.0
//
// Reads whole files. Every reader sets a limit, so that neither a file nor its header can make
// us allocate more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::data {

using Bytes = std::vector<std::uint8_t>;

/// All bytes of a plain file. Throws DataError where it is missing, is not a regular file, has
/// more than `most` bytes or cannot be read.
Bytes read_file(const std::filesystem::path& file, std::size_t most);

/// The same as text, without a byte order mark.
std::string read_text(const std::filesystem::path& file, std::size_t most);

/// All bytes of a file that is plain or gzip, which its first bytes decide. `size_of` gets the
/// first `head` bytes and returns the size of the whole, which is all that is unpacked. Throws
/// DataError as above, and where the file has another size or is damaged.
Bytes read_packed(
    const std::filesystem::path& file, std::size_t head,
    const std::function<std::size_t(std::span<const std::uint8_t>)>& size_of);

/// a * b, or nothing where that overflows.
std::optional<std::size_t> product(std::size_t a, std::size_t b);

/// "FILE: " with the path as it was given. Every sentence about a file begins with it.
std::string about(const std::filesystem::path& file);

/// `text` in quotes, cut to 40 bytes, with ? for control characters.
std::string in_quotes(std::string_view text);

}  // namespace topknot::data

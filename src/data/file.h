// SPDX-License-Identifier: Apache-2.0
//
// Files in whole. Every reader says how much it is ready to take, so that no file and no
// header in one can ask for more memory than that.
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

/// All of a plain file. Throws DataError when it is missing, is no file, has more than
/// `most` bytes or cannot be read.
Bytes read_file(const std::filesystem::path& file, std::size_t most);

/// The same, as text. A byte order mark at its head is left out.
std::string read_text(const std::filesystem::path& file, std::size_t most);

/// All of a file that is plain or gzip, told apart by its first bytes. `size_of` gets the
/// first `head` bytes and says how many there are in all, those included; not one more than
/// that is unpacked. Throws DataError as above, and when the file has another size than
/// that or was damaged.
Bytes read_packed(
    const std::filesystem::path& file, std::size_t head,
    const std::function<std::size_t(std::span<const std::uint8_t>)>& size_of);

/// a * b, or nothing where that is more than a size can hold.
std::optional<std::size_t> product(std::size_t a, std::size_t b);

/// "FILE: " with the path as it was given; the head of every sentence about a file.
std::string about(const std::filesystem::path& file);

/// `text` in quotes, cut to a length a sentence can bear, without control characters.
std::string in_quotes(std::string_view text);

}  // namespace topknot::data

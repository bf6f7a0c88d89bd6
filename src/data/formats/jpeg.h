// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "data/file.h"

namespace topknot::data {

/// A decoded picture: rows of red, green and blue.
struct Picture {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  Bytes pixels;  ///< 3 * height * width, interleaved
};

/// Decodes a JPEG file at 1/8, 1/4, 1/2 or all of its size: the smallest whose shorter side has
/// `least_side` pixels, or all. Throws DataError where the file is not a JPEG, is damaged or cut
/// short, or has more than 2^27 pixels.
Picture read_jpeg(const std::filesystem::path& file, std::uint32_t least_side);

}  // namespace topknot::data

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
  Bytes pixels;  ///< 3 * height * width, colours together
};

/// The JPEG file, as an eighth, quarter, half or all of its size: the least that is still
/// `least_side` pixels along its shorter side, or all. Throws DataError when it is not a
/// JPEG, is damaged or cut short, or is larger than 2^27 pixels.
Picture read_jpeg(const std::filesystem::path& file, std::uint32_t least_side);

}  // namespace topknot::data

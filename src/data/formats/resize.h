// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "data/formats/jpeg.h"

namespace topknot::data {

/// A part of a picture, in its pixels; edges may lie between them.
struct Window {
  double top = 0, left = 0, height = 0, width = 0;
};

/// The window of `picture`, which lies within it, as side x side planar pixels: bilinear,
/// and averaging over all that a pixel covers where it shrinks.
void resize(const Picture& picture, const Window& window, std::uint32_t side,
            std::span<std::uint8_t> pixels);

}  // namespace topknot::data

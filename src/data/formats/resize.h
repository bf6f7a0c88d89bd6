// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "data/formats/jpeg.h"

namespace topknot::data {

/// A part of a picture in units of pixels; its edges may lie between pixels.
struct Window {
  double top = 0, left = 0, height = 0, width = 0;
};

/// Resizes `window`, which lies within `picture`, to side x side planar pixels: bilinear where
/// it grows, averaging over the area of each new pixel where it shrinks.
void resize(const Picture& picture, const Window& window, std::uint32_t side,
            std::span<std::uint8_t> pixels);

}  // namespace topknot::data

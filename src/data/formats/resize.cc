// SPDX-License-Identifier: Apache-2.0
#include "data/formats/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace topknot::data {
namespace {

/// A new pixel is the weighted sum of the old pixels [first, first + weights.size()).
struct Taps {
  std::size_t first = 0;
  std::vector<float> weights;
};

/// Triangular filters centred on each new pixel, of the new pixel's width or the old one's,
/// whichever is larger.
std::vector<Taps> tents(double begin, double length, std::uint32_t side,
                        std::uint32_t limit) {
  std::vector<Taps> all(side);
  const double step = length / side;
  const double reach = std::max(1.0, step);
  for (std::uint32_t i = 0; i < side; ++i) {
    const double middle = begin + (i + 0.5) * step;
    const double low = std::max(0.0, std::floor(middle - reach));
    const double high = std::min<double>(limit, std::ceil(middle + reach));
    Taps& taps = all[i];
    taps.first = static_cast<std::size_t>(std::min<double>(low, limit - 1));
    double sum = 0;
    std::vector<double> raw;
    for (double p = static_cast<double>(taps.first); p < high; ++p) {
      raw.push_back(std::max(0.0, 1 - std::abs(p + 0.5 - middle) / reach));
      sum += raw.back();
    }
    if (sum <= 0) {
      raw.assign(1, 1.0);
      sum = 1;
    }
    for (const double weight : raw)
      taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return all;
}

}  // namespace

void resize(const Picture& picture, const Window& window, std::uint32_t side,
            std::span<std::uint8_t> pixels) {
  const std::vector<Taps> columns = tents(window.left, window.width, side, picture.width);
  const std::vector<Taps> rows = tents(window.top, window.height, side, picture.height);
  // First horizontally, over the rows that are needed, then vertically.
  const std::size_t first_row = rows.front().first;
  const std::size_t last_row = rows.back().first + rows.back().weights.size();
  std::vector<float> narrow((last_row - first_row) * side * 3);
  for (std::size_t y = first_row; y < last_row; ++y) {
    const std::uint8_t* const row = picture.pixels.data() + y * picture.width * 3;
    float* out = narrow.data() + (y - first_row) * side * 3;
    for (const Taps& taps : columns)
      for (std::size_t c = 0; c < 3; ++c) {
        float sum = 0;
        for (std::size_t t = 0; t < taps.weights.size(); ++t)
          sum += taps.weights[t] * row[(taps.first + t) * 3 + c];
        *out++ = sum;
      }
  }
  const std::size_t plane = std::size_t{side} * side;
  for (std::size_t y = 0; y < side; ++y)
    for (std::size_t x = 0; x < side; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        float sum = 0;
        for (std::size_t t = 0; t < rows[y].weights.size(); ++t)
          sum += rows[y].weights[t] *
                 narrow[((rows[y].first + t - first_row) * side + x) * 3 + c];
        pixels[c * plane + y * side + x] =
            static_cast<std::uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F));
      }
}

}  // namespace topknot::data

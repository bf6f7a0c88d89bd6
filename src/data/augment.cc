// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "data/exact.h"
#include "data/images.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

/// The position in the old image of a pixel of the new one.
struct Move {
  int right = 0;  // of the window, relative to the image
  int down = 0;
  bool flipped = false;
  double turns = 0;
};

Move draw(const Augmentation& how, core::Random& random) {
  Move move;
  if (how.pad > 0) {
    const std::uint64_t places = 2 * std::uint64_t{how.pad} + 1;
    move.right = static_cast<int>(random.below(places)) - static_cast<int>(how.pad);
    move.down = static_cast<int>(random.below(places)) - static_cast<int>(how.pad);
  }
  if (how.flip) move.flipped = (random.bits() >> 63) != 0;
  if (how.rotate > 0) move.turns = around_zero(random) * how.rotate / 360;
  return move;
}

void shift_plane(const std::uint8_t* from, std::uint8_t* to, int height, int width,
                 const Move& move) {
  std::fill_n(to, static_cast<std::ptrdiff_t>(height) * width, std::uint8_t{0});
  for (int y = std::max(0, -move.down); y < std::min(height, height - move.down); ++y) {
    const std::uint8_t* const row =
        from + static_cast<std::ptrdiff_t>(y + move.down) * width;
    std::uint8_t* const out = to + static_cast<std::ptrdiff_t>(y) * width;
    for (int x = std::max(0, -move.right); x < std::min(width, width - move.right); ++x)
      out[x] = row[move.flipped ? width - 1 - (x + move.right) : x + move.right];
  }
}

/// The plane at a point between pixels, interpolated; zero outside.
double between(const std::uint8_t* from, int height, int width, double y, double x) {
  const int top = static_cast<int>(std::floor(y));
  const int left = static_cast<int>(std::floor(x));
  const auto at = [&](int row, int column) -> double {
    if (row < 0 || row >= height || column < 0 || column >= width) return 0;
    return from[static_cast<std::ptrdiff_t>(row) * width + column];
  };
  const double below = y - top;
  const double beyond = x - left;
  return (1 - below) * ((1 - beyond) * at(top, left) + beyond * at(top, left + 1)) +
         below * ((1 - beyond) * at(top + 1, left) + beyond * at(top + 1, left + 1));
}

void rotate_plane(const std::uint8_t* from, std::uint8_t* to, int height, int width,
                  const Move& move) {
  const double sin = sine(move.turns);
  const double cos = cosine(move.turns);
  const double middle_y = (height - 1) / 2.0;
  const double middle_x = (width - 1) / 2.0;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const double v = y + move.down - middle_y;
      const double u = (x + move.right - middle_x) * (move.flipped ? -1 : 1);
      const double value = between(from, height, width, middle_y + cos * v + sin * u,
                                   middle_x + cos * u - sin * v);
      to[static_cast<std::ptrdiff_t>(y) * width + x] =
          static_cast<std::uint8_t>(value + 0.5);
    }
}

}  // namespace

void augment(std::span<const std::uint8_t> from, std::span<std::uint8_t> to,
             const ImageShape& shape, const Augmentation& how, core::Random& random) {
  if (from.size() != shape.size() || to.size() != shape.size())
    throw ContractError("augment needs two buffers of " + std::to_string(shape.size()) +
                        " bytes and got " + std::to_string(from.size()) + " and " +
                        std::to_string(to.size()) + ".");
  if (how.pad > 4096 || !(how.rotate >= 0 && how.rotate <= 180))
    throw ConfigError("pad is at most 4096 and rotate 0 to 180 degrees.");
  const Move move = draw(how, random);
  const auto height = static_cast<int>(shape.height);
  const auto width = static_cast<int>(shape.width);
  const std::size_t plane = std::size_t{shape.height} * shape.width;
  for (std::size_t c = 0; c < shape.channels; ++c)
    (move.turns == 0 ? shift_plane : rotate_plane)(
        from.data() + c * plane, to.data() + c * plane, height, width, move);
}

}  // namespace topknot::data

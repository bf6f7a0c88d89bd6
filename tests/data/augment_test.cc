// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "data/exact.h"
#include "data/images.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

using Pixels = std::vector<std::uint8_t>;

constexpr ImageShape kShape{2, 5, 6};

Pixels numbered() {
  Pixels pixels(kShape.size());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i + 1);
  return pixels;
}

Pixels augmented(const Augmentation& how, std::uint64_t seed, const Pixels& from) {
  core::Random random(seed);
  Pixels to(from.size(), 255);
  augment(from, to, kShape, how, random);
  return to;
}

/// The window at (down, right) of the padded image, by the book.
Pixels window(const Pixels& from, int down, int right, bool flipped) {
  Pixels to;
  for (int c = 0; c < 2; ++c)
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 6; ++x) {
        const int row = y + down;
        const int column = x + right;
        const bool inside = row >= 0 && row < 5 && column >= 0 && column < 6;
        const int at = flipped ? 5 - column : column;
        to.push_back(inside ? from[static_cast<std::size_t>(c * 30 + row * 6 + at)]
                            : std::uint8_t{0});
      }
  return to;
}

std::string as_text(const Pixels& pixels) { return {pixels.begin(), pixels.end()}; }

TEST(Augment, WithoutAWishIsACopyAndDrawsNothing) {
  core::Random random(1);
  Pixels to(kShape.size());
  augment(numbered(), to, kShape, {}, random);
  EXPECT_EQ(to, numbered());
  EXPECT_EQ(random.counter(), 0U);
}

TEST(Augment, MakesEveryWindowAndFlipAndNothingElse) {
  std::set<std::string> allowed;
  for (int down = -2; down <= 2; ++down)
    for (int right = -2; right <= 2; ++right)
      for (const bool flipped : {false, true})
        allowed.insert(as_text(window(numbered(), down, right, flipped)));
  ASSERT_EQ(allowed.size(), 50U);
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    seen.insert(
        as_text(augmented({.pad = 2, .flip = true, .rotate = 0}, seed, numbered())));
  EXPECT_EQ(seen, allowed);
}

TEST(Augment, DrawsAsManyNumbersWhateverTheyAre) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    core::Random random(seed);
    Pixels to(kShape.size());
    augment(numbered(), to, kShape, {.pad = 1, .flip = true, .rotate = 10}, random);
    EXPECT_EQ(random.counter(), 4U);
  }
}

TEST(Augment, RotatesAboutTheMiddle) {
  constexpr ImageShape kSquare{1, 9, 9};
  Pixels cross(81);
  for (int i = 0; i < 9; ++i) cross[static_cast<std::size_t>(4 * 9 + i)] = 200;
  bool moved = false;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    core::Random random(seed);
    Pixels to(81);
    augment(cross, to, kSquare, {.pad = 0, .flip = false, .rotate = 30}, random);
    EXPECT_NEAR(to[40], 200, 1);
    moved = moved || to[36] < 100;
    // A half turn about the middle leaves the line as it is, however it was turned.
    for (std::size_t i = 0; i < 81; ++i) EXPECT_NEAR(to[i], to[80 - i], 1);
  }
  EXPECT_TRUE(moved);
}

TEST(Augment, RefusesBuffersThatDoNotFit) {
  core::Random random(1);
  Pixels from(kShape.size()), to(kShape.size() - 1);
  EXPECT_THROW(augment(from, to, kShape, {}, random), ContractError);
}

TEST(Exact, SineIsASine) {
  for (int i = -4000; i <= 4000; ++i) {
    const double turns = i / 1000.0;
    EXPECT_NEAR(sine(turns), std::sin(2 * kPi * turns), 1e-9);
    EXPECT_NEAR(cosine(turns), std::cos(2 * kPi * turns), 1e-9);
  }
}

TEST(Exact, BellHasMeanZeroAndVarianceOne) {
  core::Random random(1);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = bell(random);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 100'000, 0, 0.01);
  EXPECT_NEAR(squares / 100'000, 1, 0.01);
}

}  // namespace
}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "core/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/every_target.h"
#include "wild.h"

namespace topknot::core {
namespace {

using testing::wild;

constexpr std::size_t kSizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 1000};
constexpr AdamStep kStep{.rate = 0.003F, .root = 1.5F};
constexpr AdamDecay kDecay{.scale = 0.7F, .coupled = 0.01F, .taken = 0.002F};

/// Squares are not negative.
std::vector<float> squares(std::size_t n, std::uint64_t seed) {
  std::vector<float> x = wild(n, seed);
  for (float& value : x) value = std::abs(value);
  return x;
}

struct Moments {
  float mean;
  float square;
  float move;
};

Moments naive(float g, float mean, float square, const AdamStep& step) {
  Moments out{};
  out.mean = step.beta1 * mean + (1 - step.beta1) * g;
  out.square = step.beta2 * square + (1 - step.beta2) * g * g;
  out.move = step.rate * out.mean / (std::sqrt(out.square) * step.root + step.epsilon);
  return out;
}

TEST(Adam, MovesWeightsAsTheFormulaSaysOnEveryTarget) {
  for (const std::size_t n : kSizes) {
    SCOPED_TRACE(n);
    const std::vector<float> gradient = wild(n, 1);
    std::vector<float> weight = wild(n, 2);
    std::vector<float> mean = wild(n, 3);
    std::vector<float> square = squares(n, 4);
    const auto before = std::vector{weight, mean, square};
    for (std::size_t i = 0; i < n; ++i) {
      const float g = kDecay.scale * gradient[i] + kDecay.coupled * weight[i];
      const Moments next = naive(g, mean[i], square[i], kStep);
      weight[i] -= kDecay.taken * weight[i];
      weight[i] -= next.move;
      mean[i] = next.mean;
      square[i] = next.square;
    }
    on_every_target([&] {
      auto now = before;
      adam_weights(now[0], gradient, now[1], now[2], kStep, kDecay);
      EXPECT_EQ(bits(now[0]), bits(weight));
      EXPECT_EQ(bits(now[1]), bits(mean));
      EXPECT_EQ(bits(now[2]), bits(square));
    });
  }
}

TEST(Adam, LeavesTheMoveInTheGradientOnEveryTarget) {
  for (const std::size_t n : kSizes) {
    SCOPED_TRACE(n);
    const std::vector<float> gradient = wild(n, 5);
    const std::vector<float> mean = wild(n, 6);
    const std::vector<float> square = squares(n, 7);
    on_every_target([&] {
      std::vector<float> move = gradient;
      std::vector<float> next(n);
      std::vector<float> now = square;
      adam_move(move, mean, next, now, kStep);
      for (std::size_t i = 0; i < n; ++i) {
        const Moments expected = naive(gradient[i], mean[i], square[i], kStep);
        const bool finite = std::isfinite(expected.square);
        EXPECT_EQ(next[i], expected.mean);
        EXPECT_EQ(now[i], finite ? expected.square : square[i]);
        if (finite)
          EXPECT_EQ(move[i], expected.move);
        else
          EXPECT_TRUE(std::isnan(move[i]));
      }
    });
  }
}

TEST(Adam, KeepsItsSquareWhereTheGradientIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> bad = {kInfinity, -kInfinity, std::nanf(""), 1e30F, 2};
  on_every_target([&] {
    std::vector<float> move = bad;
    std::vector<float> next(bad.size());
    std::vector<float> square(bad.size(), 0.5F);
    adam_move(move, std::vector<float>(bad.size(), 1), next, square, kStep);
    for (std::size_t i = 0; i + 1 < bad.size(); ++i) {
      EXPECT_TRUE(std::isnan(move[i])) << bad[i];
      EXPECT_EQ(square[i], 0.5F) << bad[i];
    }
    EXPECT_TRUE(std::isfinite(move.back()));
    EXPECT_NE(square.back(), 0.5F);
  });
}

}  // namespace
}  // namespace topknot::core

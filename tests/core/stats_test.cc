// SPDX-License-Identifier: Apache-2.0
#include "core/stats.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/every_target.h"
#include "core/random.h"

namespace topknot::core {
namespace {

Moments one_by_one(std::span<const float> x) {
  std::array<std::array<double, 16>, 3> lanes = {};
  Moments m;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    lanes[0][i % 16] += v;
    lanes[1][i % 16] += std::abs(v);
    lanes[2][i % 16] += v * v;
    m.max_magnitude = std::max(m.max_magnitude, std::abs(x[i]));
  }
  for (std::size_t lane = 0; lane < 16; ++lane) {
    m.sum += lanes[0][lane];
    m.sum_magnitude += lanes[1][lane];
    m.sum_square += lanes[2][lane];
  }
  return m;
}

TEST(Moments, AreTheSameBitsOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t n :
         {0, 1, 15, 16, 17, 31, 32, 33, 2047, 2048, 2049, 4100, 100003}) {
      Random random(n);
      std::vector<float> x(n + 3);
      for (float& v : x)
        v = random.laplace() * std::exp2(static_cast<float>(random.below(40)));
      for (const std::size_t skip : {0, 1, 3}) {
        const auto part = std::span(x).subspan(skip, n);
        const Moments want = one_by_one(part);
        const Moments got = moments(part);
        ASSERT_EQ(got.sum, want.sum) << "n = " << n;
        ASSERT_EQ(got.sum_magnitude, want.sum_magnitude);
        ASSERT_EQ(got.sum_square, want.sum_square);
        ASSERT_EQ(got.max_magnitude, want.max_magnitude);
      }
    }
  });
}

TEST(Moments, AreThoseOfASmallVectorByHand) {
  on_every_target([] {
    const Moments m = moments(std::vector<float>{3, -4, 0.5F});
    EXPECT_EQ(m.sum, -0.5);
    EXPECT_EQ(m.sum_magnitude, 7.5);
    EXPECT_EQ(m.sum_square, 25.25);
    EXPECT_EQ(m.max_magnitude, 4);
  });
}

TEST(Moments, SquareWithoutOverflow) {
  const float big = std::numeric_limits<float>::max();
  const Moments m = moments(std::vector<float>(40, big));
  EXPECT_EQ(m.sum_square, 40 * (static_cast<double>(big) * big));
}

TEST(Moments, LetNaNAndInfinityThrough) {
  on_every_target([] {
    for (std::size_t at = 0; at < 40; ++at) {
      std::vector<float> x(40, 1.0F);
      x[at] = -std::numeric_limits<float>::infinity();
      Moments m = moments(x);
      EXPECT_EQ(m.sum, -std::numeric_limits<double>::infinity());
      EXPECT_EQ(m.max_magnitude, std::numeric_limits<float>::infinity());
      x[at] = std::numeric_limits<float>::quiet_NaN();
      m = moments(x);
      EXPECT_TRUE(std::isnan(m.sum));
      EXPECT_TRUE(std::isnan(m.sum_magnitude));
      EXPECT_TRUE(std::isnan(m.sum_square));
      EXPECT_TRUE(std::isnan(m.max_magnitude));
    }
  });
}

}  // namespace
}  // namespace topknot::core

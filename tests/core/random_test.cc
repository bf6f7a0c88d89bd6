// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>

namespace topknot::core {
namespace {

// SplitMix64 as its authors wrote it (Steele, Lea, Flood, 2014).
struct SplitMix64 {
  std::uint64_t state;

  std::uint64_t next() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
};

TEST(Random, IsSplitMix64SeededByItself) {
  SplitMix64 published = {1234567};
  EXPECT_EQ(published.next(), 6457827717110365317ULL);
  EXPECT_EQ(published.next(), 3203168211198807973ULL);
  for (const std::uint64_t seed : {0ULL, 1ULL, ~0ULL}) {
    SplitMix64 reference = {SplitMix64{seed}.next()};
    Random random(seed);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(random.bits(), reference.next());
  }
}

TEST(Random, GoesOnFromItsCounter) {
  Random whole(7);
  for (int i = 0; i < 5; ++i) whole.bits();
  Random rest(7, whole.counter());
  EXPECT_EQ(whole.counter(), 5);
  EXPECT_EQ(rest.bits(), random_bits(7, 5));
  EXPECT_EQ(whole.bits(), random_bits(7, 5));
}

TEST(Random, OfNeighbouringSeedsHasNothingInCommon) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (std::uint64_t i = 0; i < 100; ++i) seen.insert(random_bits(seed, i));
  }
  EXPECT_EQ(seen.size(), 10000);
}

TEST(Random, IsUniformBelowOne) {
  Random random(1);
  const int n = 1 << 20;
  double sum = 0;
  double sum_square = 0;
  for (int i = 0; i < n; ++i) {
    const float u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    sum_square += u * u;
  }
  EXPECT_NEAR(sum / n, 1.0 / 2, 0.002);
  EXPECT_NEAR(sum_square / n, 1.0 / 3, 0.002);
}

TEST(Random, IsUniformBelowAnyBound) {
  Random random(2);
  std::array<int, 7> counts = {};
  for (int i = 0; i < 70000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(random.below(1), 0);
  for (int i = 0; i < 1000; ++i) ASSERT_LT(random.below(~0ULL), ~0ULL);
}

TEST(Random, LaplaceHasItsMoments) {
  Random random(3);
  const int n = 1 << 20;
  double sum = 0;
  double sum_magnitude = 0;
  double sum_square = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.laplace();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    sum_magnitude += std::abs(x);
    sum_square += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(sum_magnitude / n, 1, 0.01);
  EXPECT_NEAR(sum_square / n, 2, 0.02);
}

TEST(Random, TakesTheRightLogarithm) {
  EXPECT_EQ(minus_log24(1U << 24), 0);
  EXPECT_FALSE(std::signbit(minus_log24(1U << 24)));
  for (std::uint32_t u = 1; u <= 1U << 24; u += u < 4096 ? 1 : 101) {
    ASSERT_NEAR(minus_log24(u), -std::log(u * 0x1p-24), 1e-10) << u;
  }
}

// Would change if a compiler or a machine rounded otherwise.
TEST(Random, IsTheSameOnEveryMachine) {
  constexpr float at_compile_time = Random(5, 77).laplace();
  EXPECT_EQ(std::bit_cast<std::uint32_t>(Random(5, 77).laplace()),
            std::bit_cast<std::uint32_t>(at_compile_time));
  std::uint64_t digest = 0;
  Random random(6);
  for (int i = 0; i < 100000; ++i) {
    digest = digest * 31 + std::bit_cast<std::uint32_t>(random.laplace());
  }
  EXPECT_EQ(digest, 915776829072100562ULL);
}

}  // namespace
}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include "core/shortlist.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "copy_of.h"
#include "core/random.h"
#include "core/select.h"

namespace topknot::core {
namespace {

constexpr auto kUnseen = [](std::span<const float>) {};

std::vector<float> laplace(std::size_t n, std::uint64_t seed, float scale = 1) {
  Random random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = scale * random.laplace();
  return x;
}

/// What fold() promises of `pairs`, for all thresholds that occur.
void expect_listed(std::span<const float> residual, std::size_t k, const Sparse& pairs) {
  k = std::min(k, residual.size());
  ASSERT_GE(pairs.size(), std::min(2 * k + 1, residual.size()));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_EQ(pairs.value[i], residual[pairs.index[i]]);
    if (i > 0) {
      ASSERT_LT(pairs.index[i - 1], pairs.index[i]);
    }
  }
  for (std::size_t i = 0; i < residual.size(); i += residual.size() / 50 + 1) {
    const float threshold = std::abs(residual[i]);
    const std::size_t count = count_at_least(residual, threshold);
    const std::size_t listed = count_at_least(pairs.value, threshold);
    if (count <= 2 * k) {
      ASSERT_EQ(listed, count) << "threshold " << threshold;
    } else {
      ASSERT_GT(listed, 2 * k) << "threshold " << threshold;
    }
  }
}

TEST(Shortlist, CountsAsTheWholeVectorDoes) {
  for (const std::size_t n : {1, 2, 31, 33, 4096, 4097, 100000})
    for (const std::size_t k : {std::size_t{1}, n / 100 + 1, n / 3 + 1, n, n + 1}) {
      Shortlist list;
      Sparse pairs;
      std::vector<float> residual(n);
      // Settled, grown by far, shrunk by far, settled again.
      const float scales[] = {1, 1, 1, 100, 1e-4F, 1e-4F};
      for (std::size_t step = 0; step < std::size(scales); ++step) {
        const std::vector<float> grad = laplace(n, step, scales[step]);
        if (scales[step] == 1e-4F) std::fill(residual.begin(), residual.end(), 0.0F);
        ASSERT_TRUE(list.fold(residual, testing::copy_of(grad), k, pairs, kUnseen));
        expect_listed(residual, k, pairs);
        if (step % 2 == 0) {
          list.cut_to(std::min(k, n), pairs);
        } else {
          list.cut(std::abs(pairs.value[0]), pairs);
        }
      }
    }
}

RC_GTEST_PROP(Shortlist, CountsAsTheWholeVectorDoesAmongFewValues,
              (const std::vector<std::int8_t>& small, std::uint8_t k)) {
  std::vector<float> residual(small.begin(), small.end());
  Shortlist list;
  Sparse pairs;
  for (int step = 0; step < 3; ++step) {
    RC_ASSERT(list.fold(residual, {}, k, pairs, kUnseen));
    expect_listed(residual, k, pairs);
    RC_ASSERT(!::testing::Test::HasFatalFailure());
    list.cut_to(k, pairs);
  }
}

TEST(Shortlist, HoldsABoundedNumberWhenEverythingIsLarge) {
  const std::size_t n = 1 << 20;
  Shortlist list;
  Sparse pairs;
  std::vector<float> residual = laplace(n, 1);
  ASSERT_TRUE(list.fold(residual, {}, 1000, pairs, kUnseen));
  list.cut_to(1000, pairs);
  for (float& v : residual) v *= 1e6F;
  ASSERT_TRUE(list.fold(residual, {}, 1000, pairs, kUnseen));
  EXPECT_LT(pairs.size(), 80000U);
  expect_listed(residual, 1000, pairs);
}

TEST(Shortlist, SettlesOnALittleMoreThanItMust) {
  for (const float spread : {0.5F, 1.0F, 3.0F}) {  // light and heavy tails
    Shortlist list;
    Sparse pairs;
    std::size_t listed = 0;
    for (std::uint64_t step = 0; step < 10; ++step) {
      std::vector<float> residual = laplace(200000, step);
      for (float& v : residual) v = std::copysign(std::pow(std::abs(v), spread), v);
      ASSERT_TRUE(list.fold(residual, {}, 2000, pairs, kUnseen));
      listed = pairs.size();
      list.cut_to(2000, pairs);
    }
    EXPECT_GT(listed, 4000U) << spread;
    EXPECT_LT(listed, 7000U) << spread;
  }
}

TEST(Shortlist, ShowsEverySumOnceAndInOrder) {
  for (const std::size_t n : {0, 1, 4096, 10000}) {
    std::vector<float> residual = laplace(n, 1);
    const std::vector<float> grad = laplace(n, 2);
    std::vector<float> seen;
    Shortlist list;
    Sparse pairs;
    ASSERT_TRUE(list.fold(residual, testing::copy_of(grad), 5, pairs,
                          [&](std::span<const float> block) {
                            EXPECT_EQ(seen.size() % 16, 0U);
                            seen.insert(seen.end(), block.begin(), block.end());
                          }));
    EXPECT_EQ(seen, residual);
  }
}

TEST(Shortlist, UndoesAFoldThatIsNonfinite) {
  for (const std::size_t where : {0, 4095, 4096, 9999}) {
    std::vector<float> residual(10000, 3);
    std::vector<float> grad(10000, 1);
    grad[where] = std::numeric_limits<float>::infinity();
    Shortlist list;
    Sparse pairs;
    EXPECT_FALSE(list.fold(residual, testing::copy_of(grad), 5, pairs, kUnseen));
    EXPECT_TRUE(pairs.empty());
    EXPECT_EQ(residual, std::vector<float>(10000, 3));
  }
}

TEST(Shortlist, CutsToTheLargestWithTiesToTheLowerIndex) {
  std::vector<float> residual = {1, -2, 2, 3, 2, -1};
  Shortlist list;
  Sparse pairs;
  ASSERT_TRUE(list.fold(residual, {}, 2, pairs, kUnseen));
  EXPECT_EQ(list.cut_to(2, pairs), 2);
  EXPECT_EQ(pairs, (Sparse{{1, 3}, {-2, 3}}));
}

TEST(AsThreshold, IsNeverNegativeOrInfinite) {
  EXPECT_EQ(as_threshold(2.5), 2.5F);
  EXPECT_EQ(as_threshold(-1), 0);
  EXPECT_EQ(as_threshold(std::nan("")), 0);
  EXPECT_EQ(as_threshold(1e300), std::numeric_limits<float>::max());
  EXPECT_EQ(as_threshold(HUGE_VAL), std::numeric_limits<float>::max());
}

TEST(WithinTwice, HoldsFromHalfToTwice) {
  EXPECT_TRUE(within_twice(5, 10));
  EXPECT_FALSE(within_twice(4, 10));
  EXPECT_TRUE(within_twice(20, 10));
  EXPECT_FALSE(within_twice(21, 10));
  EXPECT_FALSE(within_twice(0, 1));
}

TEST(FloorOver, IsReachedByEnough) {
  const std::vector<float> x = laplace(5000, 9);
  for (const std::size_t least : {1, 10, 500, 5000}) {
    const float floor = floor_over(x, least);
    EXPECT_GE(count_at_least(x, floor), least);
    EXPECT_LT(count_at_least(x, 1.13F * floor), least);
  }
  EXPECT_EQ(floor_over(x, 5001), 0);
}

}  // namespace
}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include "core/at_most.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "copy_of.h"
#include "core/random.h"

namespace topknot::core {
namespace {

/// What reaches `threshold`, or the k largest of it when it is more than `most`.
Sparse naive(const std::vector<float>& x, float threshold, std::size_t k,
             std::size_t most) {
  std::vector<std::uint32_t> index;
  for (std::uint32_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i]) >= threshold) index.push_back(i);
  if (index.size() > most) {
    std::stable_sort(index.begin(), index.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::abs(x[a]) > std::abs(x[b]);
    });
    index.resize(k);
    std::sort(index.begin(), index.end());
  }
  Sparse out;
  for (const std::uint32_t i : index) out.push_back(i, x[i]);
  return out;
}

TEST(FoldAndSelectAtMost, IsTheNaiveSelectionOfEveryShortVector) {
  for (std::size_t n = 0; n <= 5; ++n)
    for (int pattern = 0; pattern < std::pow(3, n); ++pattern) {
      std::vector<float> x(n);
      int rest = pattern;
      for (float& value : x) {
        value = static_cast<float>(rest % 3 - 1) * static_cast<float>(1 + rest % 2);
        rest /= 3;
      }
      for (std::size_t most = 0; most <= n; ++most)
        for (std::size_t k = 0; k <= most; ++k)
          for (const float threshold : {0.0F, 1.0F, 2.0F, 3.0F}) {
            std::vector<float> residual = x;
            Sparse out;
            ASSERT_TRUE(fold_and_select_at_most(residual, {}, threshold, k, most, out));
            ASSERT_EQ(out, naive(x, threshold, k, most));
          }
    }
}

TEST(FoldAndSelectAtMost, CutsBackWithinTheSweepAndLosesNoneOfTheLargest) {
  // Long enough to run out of room many times, with ties everywhere.
  const std::size_t n = 400000;
  for (const bool rising : {false, true}) {
    Random random(7);
    std::vector<float> residual(n);
    std::vector<float> grad(n);
    for (std::size_t i = 0; i < n; ++i) {
      grad[i] = std::trunc(20 * random.laplace());
      residual[i] = rising ? static_cast<float>(i / 1000) : 0.0F;
    }
    std::vector<float> sum = residual;
    for (std::size_t i = 0; i < n; ++i) sum[i] += grad[i];
    for (const std::size_t k : {0U, 1U, 1000U, 30000U})
      for (const float threshold : {0.0F, 30.0F}) {
        std::vector<float> folded = residual;
        Sparse out;
        ASSERT_TRUE(fold_and_select_at_most(folded, testing::copy_of(grad), threshold, k,
                                            2 * k, out));
        EXPECT_EQ(folded, sum);
        EXPECT_EQ(out, naive(sum, threshold, k, 2 * k)) << k << " above " << threshold;
      }
  }
}

TEST(FoldAndSelectAtMost, SelectsNothingWhereASumIsNonfinite) {
  std::vector<float> residual(10000, 1.0F);
  std::vector<float> grad(10000, 2.0F);
  grad[9000] = std::numeric_limits<float>::infinity();
  Sparse out;
  EXPECT_FALSE(fold_and_select_at_most(residual, testing::copy_of(grad), 0, 5, 10, out));
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(residual, std::vector<float>(10000, 1.0F));
}

TEST(SmallestMagnitude, IgnoresSigns) {
  EXPECT_EQ(smallest_magnitude(std::vector<float>{3, -1, 2}), 1);
  EXPECT_EQ(smallest_magnitude(std::vector<float>{-0.0F, 5}), 0);
  EXPECT_EQ(smallest_magnitude({}), 0);
}

}  // namespace
}  // namespace topknot::core

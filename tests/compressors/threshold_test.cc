// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "refusal.h"
#include "trials.h"

namespace topknot::testing {
namespace {

/// What reaches `value` in magnitude.
Sparse at_least(std::span<const float> x, float value) {
  Sparse out;
  for (std::uint32_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i]) >= value) out.push_back(i, x[i]);
  return out;
}

TEST(Threshold, TakesAllThatReachesItsValueWhateverKIs) {
  for (const Kind kind : kAllKinds)
    for (const std::size_t k : {0, 1, 50, 5000}) {
      const auto compressor = make("threshold:value=0.1", 1000);
      std::vector<float> residual = vector_of(kind, 1000);
      const Sparse expected = at_least(residual, 0.1F);
      Sparse out;
      ASSERT_TRUE(compressor->select(residual, {}, k, out));
      EXPECT_EQ(out, expected) << "kind " << static_cast<int>(kind) << " k=" << k;
    }
}

TEST(Threshold, AddsTheGradientFirst) {
  const auto compressor = make("threshold:value=2", 4);
  std::vector<float> residual = {1, 1, -1, 5};
  std::vector<float> grad = {1, 0.5F, -1, -4};
  Sparse out;
  ASSERT_TRUE(compressor->select(residual, grad, 1, out));
  EXPECT_EQ(residual, (std::vector<float>{2, 1.5F, -2, 1}));
  EXPECT_EQ(out.index, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(out.value, (std::vector<float>{2, -2}));
}

TEST(Threshold, IsTheKthMagnitudeOfTheFirstStepFromThenOn) {
  for (const std::size_t k : {1, 7, 100}) {
    const auto compressor = make("threshold", 1000);
    std::vector<float> first = vector_of(Kind::laplace, 1000, 1);
    std::vector<float> sorted = first;
    std::ranges::sort(sorted, std::greater<>(), [](float v) { return std::abs(v); });
    const float kth = std::abs(sorted[k - 1]);
    Sparse out;
    ASSERT_TRUE(compressor->select(first, {}, k, out));
    EXPECT_EQ(out.size(), k);
    EXPECT_EQ(Fields::of(*compressor).get<float>("threshold"), kth);
    // Another vector, another k: the threshold stays.
    for (const std::uint64_t seed : {2, 3}) {
      std::vector<float> next = vector_of(Kind::laplace, 1000, seed);
      const Sparse expected = at_least(next, kth);
      ASSERT_TRUE(compressor->select(next, {}, 3 * k, out));
      EXPECT_EQ(out, expected) << "k=" << k << " seed " << seed;
      EXPECT_EQ(Fields::of(*compressor).get<float>("threshold"), kth);
    }
  }
}

// Ties at the k-th magnitude: k on the step that fixes the threshold, all on the next.
TEST(Threshold, TakesTiesFromTheSecondStepOn) {
  const auto compressor = make("threshold", 10);
  std::vector<float> residual(10, 3.0F);
  Sparse out;
  ASSERT_TRUE(compressor->select(residual, {}, 4, out));
  EXPECT_EQ(out.index, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  ASSERT_TRUE(compressor->select(residual, {}, 4, out));
  EXPECT_EQ(out.size(), 10U);
}

// A step has no k-th magnitude when it is not finite, when k is 0, or when fewer than k
// coordinates are not zero.
TEST(Threshold, WaitsForAStepThatHasAKthMagnitude) {
  const auto compressor = make("threshold", 5);
  Sparse out;
  std::vector<float> broken(5, std::numeric_limits<float>::infinity());
  EXPECT_FALSE(compressor->select(broken, {}, 2, out));
  EXPECT_TRUE(out.empty());
  std::vector<float> unasked = {9, 9, 9, 9, 9};
  ASSERT_TRUE(compressor->select(unasked, {}, 0, out));
  EXPECT_TRUE(out.empty());
  std::vector<float> few = {0, 0, 8, 0, 0};
  ASSERT_TRUE(compressor->select(few, {}, 2, out));
  EXPECT_EQ(out.size(), 2U);
  EXPECT_EQ(Fields::of(*compressor).get<float>("threshold"), 0);
  std::vector<float> enough = {1, -4, 2, 3, 0};
  ASSERT_TRUE(compressor->select(enough, {}, 2, out));
  EXPECT_EQ(Fields::of(*compressor).get<float>("threshold"), 3);
}

TEST(Threshold, RefusesWhatIsNonfiniteWithAValueGiven) {
  const auto compressor = make("threshold:value=0.5", 100);
  std::vector<float> residual(100, 1.0F);
  std::vector<float> grad(100, 1.0F);
  grad[63] = std::numeric_limits<float>::quiet_NaN();
  Sparse out;
  out.push_back(1, 1);
  EXPECT_FALSE(compressor->select(residual, grad, 10, out));
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(residual, std::vector<float>(100, 1.0F));
}

TEST(Threshold, GoesOnAfterLoading) { expect_to_go_on_after_loading("threshold"); }

TEST(Threshold, SaysWhatItsValueMayBe) {
  EXPECT_REFUSAL(make("threshold:value=-1", 10), ConfigError,
                 "value=-1 is not in 0..3.4028234663852886e+38.");
  EXPECT_REFUSAL(make("threshold:value=many", 10), ConfigError,
                 "value=many is not in 0..3.4028234663852886e+38.");
  EXPECT_REFUSAL(make("threshold:values=1", 10), ConfigError,
                 "threshold has no parameter values; nearest is value (of value).");
}

}  // namespace
}  // namespace topknot::testing

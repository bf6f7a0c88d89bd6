// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "compressors/trials.h"
#include "copy_of.h"
#include "topknot/schedule.h"

namespace topknot::testing {
namespace {

std::vector<std::uint32_t> largest(std::span<const float> x, std::size_t k) {
  std::vector<std::uint32_t> all(x.size());
  std::iota(all.begin(), all.end(), 0U);
  std::stable_sort(all.begin(), all.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(x[a]) > std::abs(x[b]);
  });
  all.resize(std::min(k, x.size()));
  std::sort(all.begin(), all.end());
  return all;
}

const Layout kMatrix{{{"m", 0, {50, 200}}}};

std::size_t most_of_a_row(const Sparse& out) {
  std::map<std::uint32_t, std::size_t> rows;
  std::size_t most = 0;
  for (const std::uint32_t i : out.index) most = std::max(most, ++rows[i / 200]);
  return rows.size() == 50 ? most : 0;
}

TEST(AdTopK, KeepsItsPromise) {
  // A flat bucket is one row, whose largest are the largest of all.
  expect_promise("adtopk", exactly);
  expect_promise("adtopk:interleave=0", exactly);
}

TEST(AdTopK, TakesTurnsBetweenRowsAndAll) {
  const auto compressor = make_compressor(Spec::parse("adtopk"), kMatrix);
  Sparse out;
  for (std::uint64_t i = 0; i < 6; ++i) {
    std::vector<float> residual = vector_of(Kind::pareto, 10000, i);
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    ASSERT_EQ(out.size(), 100U);
    if (i % 2 == 0) {
      EXPECT_EQ(most_of_a_row(out), 2U) << "step " << i;
    } else {
      EXPECT_EQ(out.index, largest(residual, 100)) << "step " << i;
    }
  }
}

TEST(AdTopK, GoesOverRowsAlwaysWhenNotInterleaved) {
  const auto compressor = make_compressor(Spec::parse("adtopk:interleave=0"), kMatrix);
  Sparse out;
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<float> residual = vector_of(Kind::pareto, 10000, i);
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    EXPECT_EQ(most_of_a_row(out), 2U) << "step " << i;
  }
}

TEST(AdTopK, HasTheDensityOfItsRows) {
  // [64, 3, 7, 7] at one in a hundred: one in three; and a bias of 64 gives one.
  const Layout layout{{{"conv", 0, {64, 3, 7, 7}}, {"bias", 9408, {64}}}};
  const auto compressor = make_compressor(Spec::parse("adtopk"), layout);
  std::vector<float> residual = vector_of(Kind::laplace, layout.size());
  Sparse out;
  ASSERT_TRUE(compressor->select(residual, {}, 94, out));
  EXPECT_EQ(out.size(), 64U * 7 * 7 + 1);
}

TEST(AdTopK, GivesEveryRowItsShareOfTheDensityNotOfARoundedK) {
  // 1 % of a row of 1,000 is 10, though k/n is less than 1 % in these buckets.
  for (const std::uint64_t bias : {0, 1, 10, 90, 99, 4321}) {
    const Layout layout{{{"m", 0, {7, 1000}}, {"bias", 7000, {bias}}}};
    const auto compressor = make_compressor(Spec::parse("adtopk"), layout);
    std::vector<float> residual = vector_of(Kind::laplace, layout.size());
    const std::size_t k = coordinates_for(layout.size(), 0.01);
    const std::size_t of_bias = bias == 0 ? 0 : coordinates_for(bias, 0.01);
    Sparse out;
    ASSERT_TRUE(compressor->select(residual, {}, k, out));
    EXPECT_EQ(out.size(), 7U * 10 + of_bias) << "told k alone, bias of " << bias;
    const auto other = make_compressor(Spec::parse("adtopk"), layout);
    other->expect(k, 0.01);
    ASSERT_TRUE(other->select(residual, {}, k, out));
    EXPECT_EQ(out.size(), 7U * 10 + of_bias) << "told the density, bias of " << bias;
  }
}

TEST(AdTopK, TakesTheDensityThatItIsToldOverWhatKSays) {
  // 29.99 % of 1,055 are 316, which could be 30 % as well: three of a row of 10.
  const Layout layout{{{"m", 0, {100, 10}}, {"bias", 1000, {55}}}};
  const auto compressor = make_compressor(Spec::parse("adtopk:interleave=0"), layout);
  std::vector<float> residual = vector_of(Kind::laplace, layout.size());
  Sparse out;
  ASSERT_EQ(coordinates_for(layout.size(), 0.2999), 316U);
  ASSERT_TRUE(compressor->select(residual, {}, 316, out));
  EXPECT_EQ(out.size(), 100U * 3 + 16) << "nobody has told";
  compressor->expect(316, 0.2999);
  ASSERT_TRUE(compressor->select(residual, {}, 316, out));
  EXPECT_EQ(out.size(), 100U * 2 + 16);
  ASSERT_TRUE(compressor->select(residual, {}, 632, out));
  EXPECT_EQ(out.size(), 100U * 5 + 32) << "not the k it was told about";
}

TEST(AdTopK, CountsAStepThatWasNonfinite) {
  const auto compressor = make_compressor(Spec::parse("adtopk"), kMatrix);
  std::vector<float> residual = vector_of(Kind::pareto, 10000);
  std::vector<float> bad(10000);
  bad[77] = std::numeric_limits<float>::quiet_NaN();
  Sparse out;
  ASSERT_FALSE(compressor->select(residual, testing::copy_of(bad), 100, out));
  ASSERT_TRUE(compressor->select(residual, {}, 100, out));
  EXPECT_EQ(out.index, largest(residual, 100)) << "the second step is not one over rows";
}

TEST(AdTopK, TakesTheLargestOfAPartOfItsBucket) {
  const auto compressor = make_compressor(Spec::parse("adtopk:interleave=0"), kMatrix);
  std::vector<float> residual = vector_of(Kind::laplace, 3000);
  Sparse out;
  ASSERT_TRUE(compressor->select(residual, {}, 30, out));
  EXPECT_EQ(out.index, largest(residual, 30));
}

TEST(AdTopK, GoesOnAfterLoading) {
  const auto first = make_compressor(Spec::parse("adtopk"), kMatrix);
  const auto second = make_compressor(Spec::parse("adtopk"), kMatrix);
  std::vector<float> residual = vector_of(Kind::pareto, 10000);
  Sparse out;
  ASSERT_TRUE(first->select(residual, {}, 100, out));
  Fields fields = Fields::of(*first);
  second->visit_state(fields);
  ASSERT_TRUE(second->select(residual, {}, 100, out));
  EXPECT_EQ(out.index, largest(residual, 100));
}

TEST(AdTopKThreshold, KeepsItsPromise) {
  expect_promise("adtopk_threshold", half_to_twice);
  expect_promise("adtopk_threshold:warm=1", half_to_twice);
}

std::uint64_t tau_of(Compressor& compressor) {
  return Fields::of(compressor).get<std::uint64_t>("tau");
}

/// Runs steps of Laplace numbers times `scale`; says how many did not give the largest.
int reused(Compressor& compressor, int steps, float scale, std::uint64_t seed = 1) {
  int others = 0;
  Sparse out;
  for (int i = 0; i < steps; ++i) {
    std::vector<float> residual =
        vector_of(Kind::laplace, 10000, seed + static_cast<std::uint64_t>(i));
    for (float& v : residual) v *= scale;
    EXPECT_TRUE(compressor.select(residual, {}, 100, out));
    if (out.index != largest(residual, 100)) ++others;
  }
  return others;
}

TEST(AdTopKThreshold, IsExactWhileItWarmsUp) {
  const auto compressor = make("adtopk_threshold:interleave=0", 10000);
  EXPECT_EQ(reused(*compressor, 15, 1), 0);
  EXPECT_GT(reused(*compressor, 4, 1, 100), 2);
}

TEST(AdTopKThreshold, IsExactEveryTauSteps) {
  const auto compressor = make("adtopk_threshold:interleave=0,tau=7", 10000);
  EXPECT_EQ(reused(*compressor, 15, 1), 0);
  Sparse out;
  std::vector<float> residual = vector_of(Kind::laplace, 10000, 3);
  for (int i = 1; i < 7; ++i) {
    std::vector<float> grown = residual;
    for (float& v : grown) v *= 1.1F;  // so that what is reused gives more than k
    ASSERT_TRUE(compressor->select(grown, {}, 100, out));
    EXPECT_GT(out.size(), 110U) << "step " << i << " after the last exact one";
  }
  ASSERT_TRUE(compressor->select(residual, {}, 100, out));
  EXPECT_EQ(out.index, largest(residual, 100));
}

TEST(AdTopKThreshold, ReusesTheThresholdForBothSigns) {
  // As published only what is positive would be taken.
  const auto compressor = make("adtopk_threshold:interleave=0", 10000);
  Sparse out;
  for (std::uint64_t i = 0; i < 17; ++i) {
    std::vector<float> residual = vector_of(Kind::laplace, 10000, i);
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
  }
  const auto negative =
      std::count_if(out.value.begin(), out.value.end(), [](float v) { return v < 0; });
  EXPECT_NE(out.size(), 100U) << "not a step that reuses the threshold";
  EXPECT_GT(negative, 30);
}

/// A vector whose k-th magnitude is `threshold`, with all else far below.
std::vector<float> with_threshold(float threshold) {
  std::vector<float> residual(10000, 1e-6F);
  for (std::size_t i = 0; i < 100; ++i) residual[i * 100] = -threshold;
  return residual;
}

TEST(AdTopKThreshold, ChangesTauByHowFarTheThresholdMoved) {
  const struct {
    float moved;
    std::uint64_t tau;  // from 9
  } kCases[] = {{1.0F, 11}, {1.04F, 11}, {0.96F, 11}, {1.07F, 10}, {0.93F, 10},
                {1.15F, 8}, {0.85F, 8},  {1.3F, 7},   {0.7F, 7},   {50, 7}};
  for (const auto& one : kCases) {
    const auto compressor = make("adtopk_threshold:interleave=0,tau=9,warm=1", 10000);
    Sparse out;
    std::vector<float> residual = with_threshold(1);
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    EXPECT_EQ(tau_of(*compressor), 9U);
    residual = with_threshold(one.moved);
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    EXPECT_EQ(tau_of(*compressor), one.tau) << "moved to " << one.moved;
  }
}

TEST(AdTopKThreshold, NeverMonitorsMoreOftenThanEveryFiveSteps) {
  const auto compressor = make("adtopk_threshold:interleave=0", 10000);
  for (int i = 0; i < 60; ++i) {
    reused(*compressor, 1, i % 2 == 0 ? 1.0F : 1000.0F);
    EXPECT_GE(tau_of(*compressor), 5U);
  }
}

TEST(AdTopKThreshold, JudgesByTheThresholdAsItIsNow) {
  // 1,000 times the scale of the warm-up, and steady: a tenth of that one's is nothing.
  const auto compressor = make("adtopk_threshold:interleave=0", 10000);
  reused(*compressor, 15, 1);
  reused(*compressor, 20, 1000);
  const std::uint64_t before = tau_of(*compressor);
  reused(*compressor, 100, 1000);
  EXPECT_GT(tau_of(*compressor), before);
}

TEST(AdTopKThreshold, BecomesExactAtOnceWhenTheCountIsFarOff) {
  const auto compressor = make("adtopk_threshold:interleave=0", 10000);
  reused(*compressor, 16, 1);
  EXPECT_EQ(reused(*compressor, 1, 5), 0) << "more than twice";
  EXPECT_EQ(reused(*compressor, 1, 0.1F), 0) << "less than half";
}

std::vector<float> with_a_greedy_row(std::uint64_t seed) {
  std::vector<float> residual = vector_of(Kind::laplace, 10000, seed);
  residual[0] = 1e6F;  // a row with more than its share of the largest
  for (std::uint32_t j = 1; j < 20; ++j) residual[j] = 1e5F;
  return residual;
}

TEST(AdTopKThreshold, GoesOverRowsInTheLastQuarterWhenSteady) {
  const auto compressor = make_compressor(
      Spec::parse("adtopk_threshold:interleave=0,warm=2,steps=40"), kMatrix);
  Sparse out;
  for (std::uint64_t i = 1; i <= 40; ++i) {
    std::vector<float> residual = with_a_greedy_row(i);
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    EXPECT_EQ(most_of_a_row(out) == 2, i > 30) << "step " << i;
  }
}

TEST(AdTopKThreshold, TakesTurnsBetweenRowsAndAll) {
  const auto compressor =
      make_compressor(Spec::parse("adtopk_threshold:warm=2,steps=80"), kMatrix);
  Sparse out;
  int reused = 0;
  for (std::uint64_t i = 0; i < 80; ++i) {
    std::vector<float> residual = with_a_greedy_row(i);
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    EXPECT_EQ(most_of_a_row(out) == 2, i % 2 == 0 || i >= 60) << "step " << i;
    if (i % 2 == 1 && i < 60 && out.index != largest(residual, 100)) ++reused;
  }
  EXPECT_GT(reused, 10) << "the steps over all have no threshold of their own";
}

TEST(AdTopKThreshold, MonitorsEveryTauStepsThoseOverRowsAmongThem) {
  // Exact are the odd steps 1; 7, the first at least 5 later, which makes tau 7; and 15.
  const auto compressor =
      make_compressor(Spec::parse("adtopk_threshold:warm=2"), kMatrix);
  Sparse out;
  for (std::uint64_t i = 0; i < 16; ++i) {
    const bool exact = i == 1 || i == 7 || i == 15;
    std::vector<float> residual = vector_of(Kind::laplace, 10000, 3);
    for (float& v : residual)
      v *= exact ? 1.0F : 1.15F;  // so that a threshold gives more
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    if (i % 2 == 1) {
      EXPECT_EQ(out.size() == 100, exact) << "step " << i;
    }
  }
  EXPECT_EQ(tau_of(*compressor), 9U);
}

TEST(AdTopKThreshold, TakesTheDensityThatItIsTold) {
  const Layout layout{{{"m", 0, {20, 1000}}, {"bias", 20000, {90}}}};
  const auto compressor = make_compressor(Spec::parse("adtopk_threshold"), layout);
  std::vector<float> residual = vector_of(Kind::laplace, layout.size());
  Sparse out;
  compressor->expect(200, 0.00999);
  ASSERT_TRUE(compressor->select(residual, {}, 200, out));
  EXPECT_EQ(out.size(), 20U * 9 + 1);
}

TEST(AdTopKThreshold, GoesOnAfterLoading) {
  expect_to_go_on_after_loading("adtopk_threshold");
}

}  // namespace
}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/exclusive_select.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "collectives/primitives/regions.h"
#include "collectives/training.h"

namespace topknot::testing {
namespace {

using collective::equal_region;

/// The magnitude that each coordinate has for the rank that judges it in step `step` of
/// micro.
std::vector<float> judged(const Outcome& outcome, int step) {
  const std::size_t n = outcome.sum.size();
  const auto ranks = static_cast<int>(outcome.folded.size());
  std::vector<float> magnitude(n);
  for (int rank = 0; rank < ranks; ++rank) {
    const core::Region part = equal_region(n, ranks, (step + rank) % ranks);
    for (std::uint64_t i = part.begin; i < part.end; ++i)
      magnitude[i] = std::abs(outcome.folded[static_cast<std::size_t>(rank)][i]);
  }
  return magnitude;
}

TEST(ExclusiveSelect, FindsTheLargestOfAllThatTheRanksJudge) {
  for (const int ranks : {1, 2, 3, 7, 12})
    for (const Gradient& gradient : {Gradient(uncorrelated), Gradient(skewed)}) {
      const auto steps = train({.collective = "micro",
                                .layout = Layout::flat(2003),
                                .k = 90,
                                .ranks = ranks,
                                .steps = 12,
                                .gradient = gradient});
      for (int s = 0; s < 12; ++s) {
        const Outcome& step = steps[static_cast<std::size_t>(s)];
        const std::vector<float> magnitude = judged(step, s);
        std::vector<std::uint32_t> order(magnitude.size());
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) {
                           return magnitude[a] > magnitude[b];
                         });
        order.resize(90);
        std::sort(order.begin(), order.end());
        EXPECT_EQ(step.index, order) << "P=" << ranks << " step " << s;
      }
    }
}

// The published start, 1 / (2 sqrt k), has no relation to the gradient.
TEST(ExclusiveSelect, SelectsKFromTheFirstStepOnAtAnyScale) {
  for (const char* name : {"exdyna", "micro"})
    for (const float scale : {1e-6F, 1e-3F, 1.0F, 1e3F, 1e6F}) {
      const auto steps = train({.collective = name,
                                .layout = Layout::flat(5000),
                                .k = 50,
                                .ranks = 4,
                                .steps = 5,
                                .gradient = [scale](int rank, int step, std::size_t i) {
                                  return scale * laplace(rank, step, i);
                                }});
      for (const Outcome& step : steps)
        EXPECT_EQ(step.index.size(), 50U) << name << " at scale " << scale;
    }
}

// The published rule settles near 0.91 k.
TEST(ExclusiveSelect, StaysAtKHoweverLong) {
  for (const char* name : {"exdyna", "micro"}) {
    const auto steps = train({.collective = name,
                              .layout = Layout::flat(2000),
                              .k = 20,
                              .ranks = 4,
                              .steps = 300,
                              .gradient = uncorrelated});
    for (const Outcome& step : steps) EXPECT_EQ(step.index.size(), 20U) << name;
  }
}

TEST(ExclusiveSelect, FollowsAGradientThatChangesItsScale) {
  const float scales[] = {1, 1e6F, 1e-6F, 1e3F, 0, 0, 1e-30F, 1, 1e-40F, 1e-44F};
  const auto steps = train({.collective = "micro",
                            .layout = Layout::flat(900),
                            .k = 40,
                            .ranks = 3,
                            .steps = 10,
                            .gradient = [&](int rank, int step, std::size_t i) {
                              return scales[step] * laplace(rank, step, i);
                            }});
  for (const Outcome& step : steps) EXPECT_EQ(step.index.size(), 40U);
}

TEST(ExclusiveSelect, GivesAPartThatHasNothingNothing) {
  const auto steps = train({.collective = "micro",
                            .layout = Layout::flat(1000),
                            .k = 30,
                            .ranks = 4,
                            .steps = 8,
                            .gradient = [](int rank, int step, std::size_t i) {
                              return i < 250 ? laplace(rank, step, i) : 0.0F;
                            }});
  for (const Outcome& step : steps) {
    EXPECT_EQ(step.index.size(), 30U);
    EXPECT_LT(step.index.back(), 250U);
  }
}

// ---- the published rule

TEST(PublishedController, StartsFromKAloneAndScalesByConstants) {
  const std::size_t k = 25;
  const auto steps = train({.collective = "micro:controller=published",
                            .layout = Layout::flat(1000),
                            .k = k,
                            .ranks = 4,
                            .steps = 200,
                            .gradient = [](int rank, int step, std::size_t i) {
                              return 0.02F * laplace(rank, step, i);
                            }});
  float threshold = 0.1F;  // 1 / (2 * sqrt(25))
  int rules[3] = {};
  for (int s = 0; s < 200; ++s) {
    const Outcome& step = steps[static_cast<std::size_t>(s)];
    std::vector<std::uint32_t> expected;
    const std::vector<float> magnitude = judged(step, s);
    for (std::uint32_t i = 0; i < magnitude.size(); ++i)
      if (magnitude[i] >= threshold) expected.push_back(i);
    EXPECT_EQ(step.index, expected) << "step " << s;
    const double ratio = static_cast<double>(expected.size()) / k;
    const int rule = ratio > 1.1 ? 0 : ratio > 0.909 ? 1 : 2;
    ++rules[rule];
    threshold *= rule == 0 ? 1.005F : rule == 1 ? 1.00125F : 0.995F;
    EXPECT_FLOAT_EQ(static_cast<float>(step.after.numbers.at("threshold")), threshold);
  }
  for (const int used : rules) EXPECT_GT(used, 0);
}

TEST(PublishedController, SettlesBelowWhatIsWanted) {
  const std::size_t k = 1000;
  const auto steps = train({.collective = "exdyna:controller=published",
                            .layout = Layout::flat(20000),
                            .k = k,
                            .ranks = 2,
                            .steps = 500,
                            .gradient = [](int rank, int step, std::size_t i) {
                              return 0.004F * laplace(rank, step, i);
                            }});
  double selected = 0;
  for (std::size_t s = 300; s < 500; ++s)
    selected += static_cast<double>(steps[s].index.size());
  EXPECT_NEAR(selected / 200 / k, 0.91, 0.03);
}

}  // namespace
}  // namespace topknot::testing

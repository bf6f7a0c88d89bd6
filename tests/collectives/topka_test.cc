// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <mutex>

#include "collectives/one_step.h"
#include "contract.h"

namespace topknot::testing {
namespace {

// Non-zero, so that the naive sum knows by its value what somebody selected.
std::vector<std::vector<float>> some_gradients() {
  const auto ranks = static_cast<std::size_t>(*rc::gen::inRange(1, 6));
  const auto n = static_cast<std::size_t>(*rc::gen::inRange(1, 20));
  std::vector<std::vector<float>> gradients(ranks);
  for (auto& x : gradients)
    for (std::size_t i = 0; i < n; ++i)
      x.push_back(static_cast<float>(*rc::gen::inRange(1, 5)) *
                  (*rc::gen::arbitrary<bool>() ? 1.0F : 32.0F));
  return gradients;
}

RC_GTEST_PROP(TopkaReselect, KeepsTheLargestOfTheExactSumAndTheRestAsResidual, ()) {
  const auto gradients = some_gradients();
  const auto n = gradients[0].size();
  const auto k = static_cast<std::size_t>(*rc::gen::inRange(0, 22));
  std::vector<float> total(n);
  for (const auto& x : gradients) total = added(total, largest(x, k));
  const auto reached = static_cast<std::size_t>(
      std::count_if(total.begin(), total.end(), [](float v) { return v != 0; }));
  const std::vector<float> kept = largest(total, k);

  const auto outcomes = reduce("topka:reselect=1", k, gradients);
  for (std::size_t r = 0; r < gradients.size(); ++r) {
    RC_ASSERT(outcomes[r].sum == kept);
    RC_ASSERT(outcomes[r].count == std::min(k, reached));
    const std::vector<float> sent = largest(gradients[r], k);
    for (std::size_t i = 0; i < n; ++i) {
      const bool settled = sent[i] != 0 && kept[i] != 0;
      RC_ASSERT(outcomes[r].residual[i] == (settled ? 0.0F : gradients[r][i]));
      RC_ASSERT((std::ranges::count(outcomes[r].settled, i) == 1) == settled);
    }
  }
}

TEST(TopkaReselect, GivesTiesToTheLowerIndex) {
  const auto outcomes = reduce("topka:reselect=1", 2, {{0, 3, 0, 3}, {3, 0, 3, 0}});
  EXPECT_EQ(outcomes[0].sum, (std::vector<float>{3, 3, 0, 0}));
  EXPECT_EQ(outcomes[0].residual, (std::vector<float>{0, 0, 0, 3}));
  EXPECT_EQ(outcomes[1].residual, (std::vector<float>{0, 0, 3, 0}));
}

TEST(TopkaReselect, KeepsTheLawForAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 5, 8, 9, 16, 33})
    run(ranks, [&](Transport& link) {
      int id = 0;
      for (const char* values : {"f32", "bf16", "i8"})
        for (const Data data : kAllData)
          for (const std::size_t k : {0, 1, 20, 500}) {
            const Case c{.collective = std::string("topka:reselect=1,values=") + values,
                         .n = 500,
                         .k = k,
                         .data = data,
                         .in_place = k == 20};
            const auto part = link.channel(id++);
            const auto wrong = violation(c, *part);
            EXPECT_FALSE(wrong) << c.str(ranks) << ": " << wrong.value_or("");
          }
    });
}

TEST(TopkaReselect, CallsASumThatOverflowsNonfinite) {
  const float most = std::numeric_limits<float>::max();
  // Both ways of overflowing, which cancel to NaN further up the tree.
  const auto outcomes = reduce("topka:reselect=1", 1, {{most}, {most}, {-most}, {-most}});
  for (const Outcome& one : outcomes) {
    EXPECT_FALSE(one.finite);
    EXPECT_EQ(one.residual, std::vector<float>{0});
  }
}

TEST(Topka, SendsExactlyEverySelectionButOne) {
  for (const int ranks : {2, 3, 4, 8, 16})
    for (const auto gradient : kGradients) {
      const std::size_t n = 6400;
      const std::size_t k = 64;
      const auto outcomes = reduce(
          ranks, "topka:coding=plain", n, k,
          [&](int rank, int step) { return gradient(n, rank, step); }, 2);
      for (const Outcome& one : outcomes)
        EXPECT_EQ(words(one.traffic), 2 * k * static_cast<std::size_t>(ranks - 1));
    }
}

}  // namespace
}  // namespace topknot::testing

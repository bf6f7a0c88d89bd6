// SPDX-License-Identifier: Apache-2.0
//
// micro: equal parts that go round. What its selection promises, and controller=, is in
// exclusive_select_test.cc; what it shares with its family in shared_index_sum_test.cc.
#include <gtest/gtest.h>

#include "collectives/training.h"
#include "collectives/trials.h"

namespace topknot::testing {
namespace {

using Places = std::vector<std::uint32_t>;

/// Rank r alone has something large at coordinate 10 r + j, for every j below 10.
float own_tenth(int rank, int, std::size_t i) {
  return i / 10 == static_cast<std::size_t>(rank) ? 100.0F : 1.0F;
}

// On step t rank r judges part (t + r) mod P. What is large for another rank alone is
// seen when that rank comes round.
TEST(Micro, JudgesEachPartByOneRankInTurn) {
  const auto steps = train({.collective = "micro",
                            .layout = Layout::flat(40),
                            .k = 40 - 1,
                            .ranks = 4,
                            .steps = 1,
                            .gradient = own_tenth});
  // On step 0 every rank judges the part that is large for it: the first 39 of those.
  Places all_but_the_last(39);
  std::iota(all_but_the_last.begin(), all_but_the_last.end(), 0U);
  EXPECT_EQ(steps[0].index, all_but_the_last);
  EXPECT_EQ(steps[0].sum[5],
            103);  // the residuals of all ranks, not only of the one that judges

  // With a k of ten and rank 0's part alone large, it is found when rank 0 judges it.
  const auto found = train({.collective = "micro",
                            .layout = Layout::flat(40),
                            .k = 10,
                            .ranks = 4,
                            .steps = 9,
                            .gradient = [](int rank, int step, std::size_t i) {
                              if (step == 0) return 0.0F;
                              return rank == 0 && i >= 10 && i < 20 ? 100.0F : 0.0F;
                            }});
  for (std::size_t s = 0; s < 9; ++s)
    EXPECT_EQ(found[s].index.size(), s % 4 == 1 ? 10U : 0U) << "step " << s;
}

TEST(Micro, CutsThePartsEvenly) {
  // Seven coordinates for three ranks: 3, 2, 2. Only the rank that judges has a residual.
  for (int step = 0; step < 6; ++step) {
    const auto steps = train({.collective = "micro",
                              .layout = Layout::flat(7),
                              .k = 6,
                              .ranks = 3,
                              .steps = step + 1,
                              .gradient = [step](int rank, int now, std::size_t i) {
                                const int part = i < 3 ? 0 : i < 5 ? 1 : 2;
                                const bool judges = (now + rank) % 3 == part;
                                return now == step && judges ? 1.0F : 0.0F;
                              }});
    // All tie: the lower rank's part first, so the last rank's last one is left.
    const std::size_t last_part = static_cast<std::size_t>(step + 2) % 3;
    const std::uint32_t left = last_part == 0 ? 2 : last_part == 1 ? 4 : 6;
    Places expected;
    for (std::uint32_t i = 0; i < 7; ++i)
      if (i != left) expected.push_back(i);
    EXPECT_EQ(steps.back().index, expected) << "step " << step;
  }
}

TEST(Micro, WorksWithFewerCoordinatesThanRanks) {
  for (const int ranks : {2, 5, 9})
    for (std::size_t n = 1; n < static_cast<std::size_t>(ranks); ++n)
      for (std::size_t k = 0; k <= n + 1; ++k) {
        const auto steps = train({.collective = "micro",
                                  .layout = Layout::flat(n),
                                  .k = k,
                                  .ranks = ranks,
                                  .steps = 3,
                                  .gradient = uncorrelated});
        for (const Outcome& step : steps)
          EXPECT_EQ(step.index.size(), std::min(k, n))
              << "P=" << ranks << " n=" << n << " k=" << k;
      }
}

TEST(Micro, KeepsTheLawWithEitherController) {
  for (const int ranks : {1, 2, 3, 5})
    for (const char* values : {"f32", "bf16"})
      hold_to_the_law(std::string("micro:controller=published,values=") + values, ranks);
}

TEST(Micro, AppliesAStepOnAllRanksOrOnNone) {
  for (const char* controller : {"exact", "published"})
    for (const int ranks : {2, 3, 5})
      hold_nonfinite_steps(std::string("micro:controller=") + controller, ranks);
}

TEST(Micro, LosesNothingWithARank) {
  for (const int ranks : {2, 3, 5}) hold_a_lost_rank("micro", ranks);
}

}  // namespace
}  // namespace topknot::testing

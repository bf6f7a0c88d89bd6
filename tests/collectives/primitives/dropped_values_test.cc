// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/dropped_values.h"

#include <gtest/gtest.h>

#include "collectives/primitives/host_residual.h"
#include "core/random.h"

namespace topknot::collective {
namespace {

using Positions = std::vector<std::uint32_t>;

void settle(DroppedValues& dropped, std::span<float> residual, Positions& settled) {
  HostResidual host(residual);
  dropped.settle(host, settled);
}

TEST(DroppedValues, GivesBackWhatWasCut) {
  DroppedValues dropped;
  Sparse pairs{{1, 3, 5, 7}, {4, -1, 2, -8}};
  dropped.cut(pairs, 2);
  EXPECT_EQ(pairs, (Sparse{{1, 7}, {4, -8}}));
  std::vector<float> residual(8, 10.0F);
  Positions settled = {1, 5, 7};
  settle(dropped, residual, settled);
  EXPECT_EQ(residual, (std::vector<float>{10, 10, 10, 9, 10, 12, 10, 10}));
  EXPECT_EQ(settled, (Positions{1, 7}));
}

TEST(DroppedValues, GivesTiesToTheLowerPosition) {
  DroppedValues dropped;
  Sparse pairs{{2, 4, 6}, {5, -5, 5}};
  dropped.cut(pairs, 1);
  EXPECT_EQ(pairs.index, (Positions{2}));
}

TEST(DroppedValues, LeavesToTheKeeperWhatOthersDropAlike) {
  DroppedValues dropped;
  Sparse pairs{{1, 3}, {1, 2}};
  dropped.cut(pairs, 1, /*keeper=*/false);
  EXPECT_EQ(pairs, (Sparse{{3}, {2}}));
  std::vector<float> residual(4);
  Positions settled = {1};
  settle(dropped, residual, settled);
  EXPECT_EQ(residual, std::vector<float>(4));
  EXPECT_EQ(settled, (Positions{1}));
}

TEST(DroppedValues, CountsWhatWasSentAsSettledThoughItsErrorStays) {
  DroppedValues dropped;
  dropped.keep_error(Positions{0, 2}, std::vector<float>{0.5F, -0.25F});
  dropped.keep_error(Positions{1}, {});  // nothing was rounded
  std::vector<float> residual(3);
  Positions settled = {0, 2};
  settle(dropped, residual, settled);
  EXPECT_EQ(residual, (std::vector<float>{0.5F, 0, -0.25F}));
  EXPECT_EQ(settled, (Positions{0, 2}));
}

TEST(DroppedValues, AddsUpWhatWasDroppedAgainAndAgain) {
  DroppedValues dropped;
  for (int round = 0; round < 3; ++round) {
    Sparse pairs{{4}, {2}};
    dropped.cut(pairs, 0);
    EXPECT_TRUE(pairs.empty());
  }
  std::vector<float> residual(5);
  Positions settled;
  settle(dropped, residual, settled);
  EXPECT_EQ(residual[4], 6);
}

TEST(DroppedValues, ForgetsWhatLiesElsewhere) {
  DroppedValues dropped;
  Sparse pairs{{1, 3, 5}, {1, 2, 3}};
  dropped.cut(pairs, 0);
  dropped.keep_error(Positions{0, 5}, std::vector<float>{7, 7});
  dropped.restrict_to(Positions{3, 5});
  std::vector<float> residual(6);
  Positions settled = {1, 3, 5};
  settle(dropped, residual, settled);
  EXPECT_EQ(residual, (std::vector<float>{0, 0, 0, 2, 0, 10}));
  EXPECT_EQ(settled, (Positions{1}));
}

TEST(DroppedValues, StartsAfreshWhenCleared) {
  DroppedValues dropped;
  Sparse pairs{{1}, {1}};
  dropped.cut(pairs, 0);
  dropped.clear();
  std::vector<float> residual(2);
  Positions settled = {1};
  settle(dropped, residual, settled);
  EXPECT_EQ(residual, std::vector<float>(2));
  EXPECT_EQ(settled, (Positions{1}));
}

TEST(DroppedValues, LosesNothingWhateverIsCut) {
  core::Random random(5);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 1 + random.below(60);
    Sparse pairs;
    std::vector<float> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (random.below(2) == 0) continue;
      expected[i] = static_cast<float>(random.below(9)) - 4;
      pairs.push_back(static_cast<std::uint32_t>(i), expected[i]);
    }
    DroppedValues dropped;
    dropped.cut(pairs, random.below(n));
    std::vector<float> residual(n);
    Positions settled;
    settle(dropped, residual, settled);
    for (std::size_t i = 0; i < pairs.size(); ++i)
      residual[pairs.index[i]] += pairs.value[i];
    ASSERT_EQ(residual, expected);
  }
}

}  // namespace
}  // namespace topknot::collective

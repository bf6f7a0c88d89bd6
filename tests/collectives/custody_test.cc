// SPDX-License-Identifier: Apache-2.0
#include "collectives/custody.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace topknot::collective {
namespace {

using Positions = std::vector<std::uint32_t>;

TEST(Custody, GivesBackWhatWasCut) {
  Custody custody;
  Sparse pairs{{1, 3, 5, 7}, {4, -1, 2, -8}};
  custody.cut(pairs, 2);
  EXPECT_EQ(pairs, (Sparse{{1, 7}, {4, -8}}));
  std::vector<float> acc(8, 10.0F);
  Positions paid = {1, 5, 7};
  custody.settle(acc, paid);
  EXPECT_EQ(acc, (std::vector<float>{10, 10, 10, 9, 10, 12, 10, 10}));
  EXPECT_EQ(paid, (Positions{1, 7}));
}

TEST(Custody, GivesTiesToTheLowerPosition) {
  Custody custody;
  Sparse pairs{{2, 4, 6}, {5, -5, 5}};
  custody.cut(pairs, 1);
  EXPECT_EQ(pairs.index, (Positions{2}));
}

TEST(Custody, LeavesToTheKeeperWhatOthersDropAlike) {
  Custody custody;
  Sparse pairs{{1, 3}, {1, 2}};
  custody.cut(pairs, 1, /*keeper=*/false);
  EXPECT_EQ(pairs, (Sparse{{3}, {2}}));
  std::vector<float> acc(4);
  Positions paid = {1};
  custody.settle(acc, paid);
  EXPECT_EQ(acc, std::vector<float>(4));
  EXPECT_EQ(paid, (Positions{1}));
}

TEST(Custody, CountsWhatWasSentAsPaidThoughItsErrorIsOwed) {
  Custody custody;
  custody.keep_error(Positions{0, 2}, std::vector<float>{0.5F, -0.25F});
  custody.keep_error(Positions{1}, {});  // nothing was rounded
  std::vector<float> acc(3);
  Positions paid = {0, 2};
  custody.settle(acc, paid);
  EXPECT_EQ(acc, (std::vector<float>{0.5F, 0, -0.25F}));
  EXPECT_EQ(paid, (Positions{0, 2}));
}

TEST(Custody, AddsUpWhatWasDroppedAgainAndAgain) {
  Custody custody;
  for (int round = 0; round < 3; ++round) {
    Sparse pairs{{4}, {2}};
    custody.cut(pairs, 0);
    EXPECT_TRUE(pairs.empty());
  }
  std::vector<float> acc(5);
  Positions paid;
  custody.settle(acc, paid);
  EXPECT_EQ(acc[4], 6);
}

TEST(Custody, ForgetsWhatLiesElsewhere) {
  Custody custody;
  Sparse pairs{{1, 3, 5}, {1, 2, 3}};
  custody.cut(pairs, 0);
  custody.keep_error(Positions{0, 5}, std::vector<float>{7, 7});
  custody.restrict_to(Positions{3, 5});
  std::vector<float> acc(6);
  Positions paid = {1, 3, 5};
  custody.settle(acc, paid);
  EXPECT_EQ(acc, (std::vector<float>{0, 0, 0, 2, 0, 10}));
  EXPECT_EQ(paid, (Positions{1}));
}

TEST(Custody, StartsAfreshWhenCleared) {
  Custody custody;
  Sparse pairs{{1}, {1}};
  custody.cut(pairs, 0);
  custody.clear();
  std::vector<float> acc(2);
  Positions paid = {1};
  custody.settle(acc, paid);
  EXPECT_EQ(acc, std::vector<float>(2));
  EXPECT_EQ(paid, (Positions{1}));
}

TEST(Custody, LosesNothingWhateverIsCut) {
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
    Custody custody;
    custody.cut(pairs, random.below(n));
    std::vector<float> acc(n);
    Positions paid;
    custody.settle(acc, paid);
    for (std::size_t i = 0; i < pairs.size(); ++i) acc[pairs.index[i]] += pairs.value[i];
    ASSERT_EQ(acc, expected);
  }
}

}  // namespace
}  // namespace topknot::collective

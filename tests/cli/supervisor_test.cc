// SPDX-License-Identifier: Apache-2.0
#include "cli/supervisor.h"

#include <gtest/gtest.h>

#include "cli/folders.h"
#include "cli/rank_ends.h"

namespace topknot::cli {
namespace {

TEST(Supervisor, StartsAgainAfterALostPeerAndWhatNoRankOfOursEndsWith) {
  for (const int code : {75, 129, 134, 137, 139, 143})
    EXPECT_TRUE(is_worth_a_restart(code, false)) << code;
  for (const int code : {1, 9, 127}) {
    EXPECT_TRUE(is_worth_a_restart(code, true)) << code;
    EXPECT_FALSE(is_worth_a_restart(code, false)) << code;
  }
  for (const int code : {0, 2, 64, 65, 66, 70, 74, 76, 85})
    EXPECT_FALSE(is_worth_a_restart(code, true)) << code;
}

TEST(Supervisor, GoesOnWithTheRestButWithNoFewerThanAllowed) {
  EXPECT_EQ(workers_left(8, 0, 6), 8);
  EXPECT_EQ(workers_left(8, 2, 6), 6);
  EXPECT_EQ(workers_left(8, 3, 6), 6);
  EXPECT_EQ(workers_left(8, 2, 8), 8);
  EXPECT_EQ(workers_left(1, 1, 1), 1);
}

TEST(RankEnds, AreThoseThatSaidNothingAndThoseThatOthersName) {
  const test::ScratchFolder folder;
  {
    const RankEnd zero(folder.path(), 0);
    zero.name_lost(3);
    const RankEnd one(folder.path(), 1);
    // These would be silent if their processes were killed now.
    RankEnds now = read_rank_ends(folder.path());
    EXPECT_EQ(now.begun, 2);
    EXPECT_EQ(now.lost, (std::vector<int>{1, 3}));
  }
  const RankEnds ends = read_rank_ends(folder.path());
  EXPECT_EQ(ends.lost, std::vector<int>{3});
  remove_rank_ends(folder.path());
  EXPECT_EQ(read_rank_ends(folder.path()).begun, 0);
}

TEST(RankEnds, TellNothingWhereNobodyIsLeftToSpeak) {
  const test::ScratchFolder folder;
  const RankEnd one(folder.path(), 0);
  const RankEnds ends = read_rank_ends(folder.path());
  EXPECT_EQ(ends.begun, 1);
  EXPECT_TRUE(ends.lost.empty());
}

}  // namespace
}  // namespace topknot::cli

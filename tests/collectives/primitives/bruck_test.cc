// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/bruck.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace topknot::collective {
namespace {

TEST(BruckRounds, BringEveryBlockToEveryMemberOnce) {
  for (int size = 1; size < 20; ++size) {
    const Subgroup first = Subgroup::strided(2, 3, size, 2);
    const auto rounds = bruck_rounds(first).size();
    EXPECT_EQ(rounds, std::bit_width(static_cast<unsigned>(size - 1)));
    std::vector<std::set<int>> held(at(size));
    for (int member = 0; member < size; ++member) held[at(member)] = {member};
    for (std::size_t r = 0; r < rounds; ++r) {
      const std::vector<std::set<int>> before = held;
      for (int member = 0; member < size; ++member) {
        const Subgroup group = Subgroup::strided(2, 3, size, first.rank(member));
        const BruckRound round = bruck_rounds(group)[r];
        const int from = group.member_of(round.from);
        const Subgroup sender = Subgroup::strided(2, 3, size, round.from);
        EXPECT_EQ(bruck_rounds(sender)[r].to, group.rank(member));
        for (int i = 0; i < round.count; ++i) {
          const int block = sender.member(i);
          EXPECT_TRUE(before[at(from)].contains(block));
          EXPECT_EQ(block, group.member(round.gap + i));
          EXPECT_TRUE(held[at(member)].insert(block).second) << size << " members";
        }
      }
    }
    for (const std::set<int>& blocks : held) EXPECT_EQ(blocks.size(), at(size));
  }
}

}  // namespace
}  // namespace topknot::collective

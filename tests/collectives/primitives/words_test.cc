// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/words.h"

#include <gtest/gtest.h>

#include "collectives/primitives/some_pairs.h"
#include "ranks.h"

namespace topknot::collective {
namespace {

using topknot::testing::run;

TEST(SumCounts, AddsUpOnEveryRank) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params = Params::parse("values=bf16");
      MessageChannel channel(link, "test", params);
      channel.begin(10, 1);
      std::vector<std::uint32_t> counts(33);
      for (std::size_t i = 0; i < counts.size(); ++i)
        counts[i] = static_cast<std::uint32_t>(1000000 * i) +
                    static_cast<std::uint32_t>(link.rank());
      sum_counts(channel, counts);
      for (std::size_t i = 0; i < counts.size(); ++i)
        EXPECT_EQ(counts[i], 1000000U * i * static_cast<unsigned>(ranks) +
                                 static_cast<unsigned>(ranks * (ranks - 1) / 2));
    });
}

TEST(GatherWords, KeepsTheOrderOfTheRanks) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params;
      MessageChannel channel(link, "test", params);
      channel.begin(10, 1);
      const std::uint32_t mine[] = {static_cast<std::uint32_t>(link.rank()), 7};
      const std::vector<std::uint32_t> all = gather_words(channel, mine);
      ASSERT_EQ(all.size(), 2 * static_cast<std::size_t>(ranks));
      for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(ranks); ++r) {
        EXPECT_EQ(all[2 * r], r);
        EXPECT_EQ(all[2 * r + 1], 7U);
      }
    });
}

}  // namespace
}  // namespace topknot::collective

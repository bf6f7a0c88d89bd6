// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/words.h"

#include <gtest/gtest.h>

#include "collectives/primitives/some_pairs.h"
#include "ranks.h"
#include "topknot/transports.h"

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

// Rank r has r words, the first none.
TEST(GatherAtOnce, TakesWhatEachRankHasAndOneMessageToEach) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      auto traffic = std::make_shared<Traffic>();
      const auto metered = make_metered(link.channel(1), traffic);
      Params params;
      MessageChannel channel(*metered, "test", params);
      channel.begin(10, 1);
      std::vector<std::uint32_t> lengths;
      std::vector<std::uint32_t> expected;
      for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(ranks); ++r) {
        lengths.push_back(r);
        for (std::uint32_t i = 0; i < r; ++i) expected.push_back(1000 * r + i);
      }
      std::vector<std::uint32_t> mine;
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(link.rank()); ++i)
        mine.push_back(1000 * static_cast<std::uint32_t>(link.rank()) + i);
      std::vector<std::uint32_t> all(3, 7);  // of an earlier call
      gather_at_once(channel, mine, lengths, all);
      EXPECT_EQ(all, expected);
      EXPECT_EQ(traffic->messages(), static_cast<std::uint64_t>(ranks - 1));
    });
}

TEST(GatherAtOnce, TellsEveryoneOfANonfiniteValue) {
  run(3, [](Transport& link) {
    Params params;
    MessageChannel channel(link, "test", params);
    channel.begin(10, 1);
    if (link.rank() == 1) channel.report_nonfinite();
    std::vector<std::uint32_t> all;
    gather_at_once(channel, {}, std::vector<std::uint32_t>(3), all);
    EXPECT_FALSE(channel.finite());
  });
}

}  // namespace
}  // namespace topknot::collective

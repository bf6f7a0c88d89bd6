// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/primitives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/random.h"
#include "ranks.h"
#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot::collective {
namespace {

using topknot::testing::run;

constexpr int kRanks[] = {1, 2, 3, 4, 5, 7, 8, 9, 16};

/// What rank `from` has for rank `to`: some pairs of [0, 100), empty now and then.
Sparse pairs_of(int from, int to) {
  core::Random random(static_cast<std::uint64_t>(from * 100 + to));
  Sparse pairs;
  const std::uint64_t one_in = random.below(10) + 1;
  for (std::uint32_t i = 0; i < 100; ++i)
    if (random.below(one_in) == 0 && one_in < 9)
      pairs.push_back(i, static_cast<float>(random.below(1000)));
  return pairs;
}

TEST(EqualRegion, CoversEverythingOnceTheLongerPartsFirst) {
  for (std::uint64_t n = 0; n < 40; ++n)
    for (int parts = 1; parts < 12; ++parts) {
      std::uint64_t at = 0;
      std::uint64_t last = n;
      for (int part = 0; part < parts; ++part) {
        const Region region = equal_region(n, parts, part);
        EXPECT_EQ(region.begin, at);
        EXPECT_LE(region.size(), last);
        at = region.end;
        last = region.size();
      }
      EXPECT_EQ(at, n);
    }
}

class EveryRoute : public ::testing::TestWithParam<Route> {};

TEST_P(EveryRoute, GathersEveryonesPairs) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params;
      MessageChannel channel(link, "test", params);
      channel.begin(100, 1);
      const std::vector<Region> regions(static_cast<std::size_t>(ranks), Region{0, 100});
      Allgather allgather;
      std::vector<Sparse> blocks;
      std::vector<float> error;
      allgather.run(channel, pairs_of(link.rank(), 0), regions, 100, blocks, error,
                    GetParam());
      for (int r = 0; r < ranks; ++r)
        EXPECT_EQ(blocks[static_cast<std::size_t>(r)], pairs_of(r, 0));
    });
}

TEST_P(EveryRoute, GathersPositionsAndDensePieces) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params = Params::parse("values=bf16");
      MessageChannel channel(link, "test", params);
      channel.begin(100, 1);
      const std::vector<Region> regions(static_cast<std::size_t>(ranks), Region{0, 100});
      Allgather allgather;
      std::vector<std::vector<std::uint32_t>> blocks;
      allgather.run_positions(channel, pairs_of(link.rank(), 0).index, regions, 100,
                              blocks, GetParam());
      for (int r = 0; r < ranks; ++r)
        EXPECT_EQ(blocks[static_cast<std::size_t>(r)], pairs_of(r, 0).index);

      std::vector<Region> pieces;
      for (int r = 0; r < ranks; ++r) pieces.push_back(equal_region(50, ranks, r));
      std::vector<float> x(50, -1.0F);
      const Region mine = pieces[static_cast<std::size_t>(link.rank())];
      for (std::uint64_t i = mine.begin; i < mine.end; ++i)
        x[i] = static_cast<float>(i) + 1000;
      std::vector<float> error;
      allgather.run_dense(channel, pieces, x, error, GetParam());
      // Above 256 bf16 has even numbers only: what was taken off is told.
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float off = static_cast<float>(i) + 1000 - x[i];
        EXPECT_LE(std::abs(off), ranks == 1 ? 0.0F : 4.0F);
        if (i >= mine.begin && i < mine.end && ranks > 1) {
          EXPECT_EQ(error[i - mine.begin], off);
        }
      }
    });
}

TEST_P(EveryRoute, BringsEveryPartToItsRank) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params;
      MessageChannel channel(link, "test", params);
      channel.begin(100, 1);
      const std::vector<Region> regions(static_cast<std::size_t>(ranks), Region{0, 100});
      std::vector<Sparse> mine;
      for (int to = 0; to < ranks; ++to) mine.push_back(pairs_of(link.rank(), to));
      const std::vector<SparseView> parts(mine.begin(), mine.end());
      Exchange exchange;
      std::vector<Sparse> blocks;
      std::vector<std::vector<float>> errors;
      for (int twice = 0; twice < 2; ++twice) {
        exchange.run(channel, parts, regions, 100, blocks, errors, GetParam());
        for (int from = 0; from < ranks; ++from)
          EXPECT_EQ(blocks[static_cast<std::size_t>(from)], pairs_of(from, link.rank()));
      }
    });
}

INSTANTIATE_TEST_SUITE_P(Routes, EveryRoute,
                         ::testing::Values(Route::direct, Route::log));

TEST(Route, TakesSoManyMessagesAsItSays) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      const int log = std::bit_width(static_cast<unsigned>(ranks - 1));
      for (const Route route : {Route::direct, Route::log}) {
        auto traffic = std::make_shared<Traffic>();
        const auto metered = make_metered(link.channel(static_cast<int>(route)), traffic);
        Params params;
        MessageChannel channel(*metered, "test", params);
        channel.begin(100, 1);
        const std::vector<Region> regions(static_cast<std::size_t>(ranks),
                                          Region{0, 100});
        Allgather allgather;
        std::vector<Sparse> blocks;
        std::vector<float> error;
        allgather.run(channel, pairs_of(link.rank(), 0), regions, 100, blocks, error,
                      route);
        const auto expected =
            static_cast<std::uint64_t>(route == Route::direct ? ranks - 1 : log);
        EXPECT_EQ(traffic->messages(), expected);
      }
    });
}

TEST(RankOrderSum, AddsInTheOrderOfTheRanks) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params;
      MessageChannel channel(link, "test", params);
      channel.begin(77, 1);
      std::vector<float> expected(77);
      std::vector<float> mine;
      for (int r = 0; r < ranks; ++r) {
        core::Random random(static_cast<std::uint64_t>(r));
        std::vector<float> x(77);
        for (float& v : x) v = random.laplace();
        for (std::size_t i = 0; i < x.size(); ++i) expected[i] += x[i];
        if (r == link.rank()) mine = x;
      }
      RankOrderSum sum;
      std::vector<float> error;
      sum.run(channel, mine, error);
      EXPECT_EQ(mine, expected);
      EXPECT_TRUE(error.empty());
    });
}

TEST(RankOrderSum, TellsWhatRoundingTookOff) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params = Params::parse("values=bf16");
      MessageChannel channel(link, "test", params);
      channel.begin(40, 1);
      std::vector<float> x(40);
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(1001 * (link.rank() + 1) + static_cast<int>(i));
      RankOrderSum sum;
      std::vector<float> error;
      sum.run(channel, x, error);
      error.resize(40);
      // Integers, so the books balance exactly: the errors of all ranks and the sum.
      const auto apart = link.channel(9);
      Params plain;
      MessageChannel exact(*apart, "check", plain);
      exact.begin(40, 1);
      std::vector<float> none;
      sum.run(exact, error, none);
      for (std::size_t i = 0; i < x.size(); ++i) {
        float whole = 0;
        for (int r = 0; r < ranks; ++r)
          whole += static_cast<float>(1001 * (r + 1) + static_cast<int>(i));
        EXPECT_EQ(x[i] + error[i], whole);
      }
    });
}

TEST(Broadcast, ReachesEveryRankFromEveryRoot) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      Params params;
      MessageChannel channel(link, "test", params);
      Broadcast broadcast;
      std::vector<float> error;
      for (int root = 0; root < ranks; ++root) {
        channel.begin(100, 1);
        Sparse pairs = link.rank() == root ? pairs_of(root, 1) : Sparse{};
        broadcast.run(channel, root, {0, 100}, 100, pairs, error);
        EXPECT_EQ(pairs, pairs_of(root, 1));
        std::vector<std::uint32_t> index =
            link.rank() == root ? pairs.index : std::vector<std::uint32_t>{};
        broadcast.run_positions(channel, root, {0, 100}, 100, index);
        EXPECT_EQ(index, pairs.index);
      }
    });
}

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

TEST(Settle, RefusesErrorsOfOtherPositions) {
  std::vector<float> residual(4, 1.0F);
  const std::vector<std::uint32_t> index = {0, 2};
  EXPECT_THROW(settle(index, std::vector<float>{0.5F}, residual), ContractError);
  EXPECT_THROW(settle(index, std::vector<float>(3), residual), ContractError);
  EXPECT_EQ(residual, std::vector<float>(4, 1.0F));
}

TEST(SumWriter, AddsInOrderAndListsEachCoordinateOnce) {
  SumWriter writer;
  std::vector<float> sum(10);
  const std::vector<Sparse> blocks = {{{1, 4}, {1, 2}}, {{}, {}}, {{4, 9}, {3, -1}}};
  ASSERT_TRUE(writer.add(blocks, {}, sum));
  EXPECT_EQ(sum, (std::vector<float>{0, 1, 0, 0, 5, 0, 0, 0, 0, -1}));
  std::vector<std::uint32_t> index(writer.index().begin(), writer.index().end());
  std::sort(index.begin(), index.end());
  EXPECT_EQ(index, (std::vector<std::uint32_t>{1, 4, 9}));

  std::vector<float> grad(10, 5.0F);
  ASSERT_TRUE(writer.add(blocks, grad, grad));
  EXPECT_EQ(grad, sum);
}

TEST(SumWriter, WritesNothingThatMightOverflow) {
  SumWriter writer;
  const float huge = std::numeric_limits<float>::max();
  std::vector<float> grad(3, 5.0F);
  EXPECT_FALSE(writer.add(std::vector<Sparse>{{{1}, {huge}}, {{1}, {huge}}}, grad, grad));
  EXPECT_EQ(grad, std::vector<float>(3, 5.0F));
}

}  // namespace
}  // namespace topknot::collective

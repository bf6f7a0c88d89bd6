// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/allgather.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "collectives/primitives/some_pairs.h"
#include "ranks.h"
#include "topknot/transports.h"

namespace topknot::collective {
namespace {

using topknot::testing::run;

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

TEST_P(EveryRoute, GathersAmongTheMembersOfASubgroup) {
  run(12, [&](Transport& link) {
    Params params;
    MessageChannel channel(link, "test", params);
    Allgather allgather;
    std::vector<Sparse> blocks;
    std::vector<float> error;
    for (const int size : {1, 2, 3, 4, 6, 12}) {
      channel.begin(100, 1);
      const int teams = 12 / size;
      const Subgroup group =
          Subgroup::strided(link.rank() % teams, teams, size, link.rank());
      const std::vector<Region> regions(at(size), Region{0, 100});
      allgather.run_among(channel, group, pairs_of(link.rank(), size), regions, 100,
                          blocks, error, GetParam());
      ASSERT_EQ(blocks.size(), at(size));
      for (int member = 0; member < size; ++member)
        EXPECT_EQ(blocks[at(member)], pairs_of(group.rank(member), size));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Routes, EveryRoute,
                         ::testing::Values(Route::direct, Route::ring, Route::log));

TEST(Allgather, TakesAsManyMessagesAsItsRouteSays) {
  for (const int ranks : kRanks)
    run(ranks, [&](Transport& link) {
      const int log = std::bit_width(static_cast<unsigned>(ranks - 1));
      for (const Route route : {Route::direct, Route::ring, Route::log}) {
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
            static_cast<std::uint64_t>(route == Route::log ? log : ranks - 1);
        EXPECT_EQ(traffic->messages(), expected);
      }
    });
}

}  // namespace
}  // namespace topknot::collective

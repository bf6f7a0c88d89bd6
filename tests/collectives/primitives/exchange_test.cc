// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/exchange.h"

#include <gtest/gtest.h>

#include "collectives/primitives/some_pairs.h"
#include "ranks.h"

namespace topknot::collective {
namespace {

using topknot::testing::run;

class EveryRoute : public ::testing::TestWithParam<Route> {};

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

}  // namespace
}  // namespace topknot::collective

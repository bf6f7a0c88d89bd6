// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/broadcast.h"

#include <gtest/gtest.h>

#include "collectives/primitives/some_pairs.h"
#include "ranks.h"

namespace topknot::collective {
namespace {

using topknot::testing::run;

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

}  // namespace
}  // namespace topknot::collective

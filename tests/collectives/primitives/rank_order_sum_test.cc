// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/rank_order_sum.h"

#include <gtest/gtest.h>

#include "collectives/primitives/some_pairs.h"
#include "core/random.h"
#include "ranks.h"

namespace topknot::collective {
namespace {

using topknot::testing::run;

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
      // Integers, so the sum and the errors of all ranks add up exactly.
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

}  // namespace
}  // namespace topknot::collective

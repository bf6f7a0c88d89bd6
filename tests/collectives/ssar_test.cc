// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "collectives/one_step.h"
#include "contract.h"

namespace topknot::testing {
namespace {

std::size_t rounds(int ranks) {
  return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks))) - 1;
}

TEST(Ssar, SumsAllSelectionsExactly) {
  const std::size_t n = 300;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33})
    for (const std::size_t k : {0, 1, 10, 300})
      for (const std::string coding : {"plain", "auto"}) {
        std::vector<float> total(n);
        for (int r = 0; r < ranks; ++r)
          total = added(total, largest(uncorrelated(n, r, 0), k));
        const auto outcomes =
            reduce(ranks, "ssar:coding=" + coding, n, k,
                   [n](int rank, int step) { return uncorrelated(n, rank, step); });
        for (const Outcome& one : outcomes) {
          EXPECT_EQ(one.sum, total) << "P=" << ranks << " k=" << k;
          EXPECT_EQ(one.index, outcomes[0].index);
        }
      }
}

// Sums of floats in another order, or of values rounded on one side only, differ.
TEST(Ssar, HasTheSameBitsOnBothSides) {
  const std::size_t n = 2000;
  for (const int ranks : {2, 3, 4, 7, 8})
    for (const std::string values : {"f32", "bf16", "i8", "i2"}) {
      const auto outcomes =
          reduce(ranks, "ssar:values=" + values, n, n / 2, [n](int rank, int) {
            core::Random own(static_cast<std::uint64_t>(rank));
            std::vector<float> x(n);
            for (float& v : x) v = own.laplace();
            return x;
          });
      for (const Outcome& one : outcomes)
        EXPECT_TRUE(same_bits(one.sum, outcomes[0].sum)) << values << " P=" << ranks;
    }
}

TEST(Ssar, TakesLogarithmicallyManyMessages) {
  for (const int ranks : {1, 2, 3, 4, 7, 8, 9, 16, 33}) {
    const auto outcomes = reduce(ranks, "ssar", 100, 5, [](int rank, int step) {
      return correlated(100, rank, step);
    });
    const bool folds = !std::has_single_bit(static_cast<unsigned>(ranks));
    std::uint64_t most = 0;
    for (const Outcome& one : outcomes) most = std::max(most, one.traffic.messages());
    EXPECT_EQ(most, rounds(ranks) + (folds ? 1 : 0)) << "P=" << ranks;
  }
}

/// Selections of k ones: all the same, or none that two ranks share.
std::vector<Outcome> ones(int ranks, std::size_t n, std::size_t k, bool same) {
  return reduce(ranks, "ssar:coding=plain", n, k, [=](int rank, int) {
    std::vector<float> x(n);
    const std::size_t first = same ? 0 : static_cast<std::size_t>(rank) * k;
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(first), k, 1.0F);
    return x;
  });
}

TEST(Ssar, SendsBetweenItsTwoExtremes) {
  const std::size_t n = 6400;
  const std::size_t k = 64;
  for (const int ranks : {2, 4, 8, 16}) {
    for (const Outcome& one : ones(ranks, n, k, true))
      EXPECT_EQ(words(one.traffic), 2 * k * rounds(ranks));
    for (const Outcome& one : ones(ranks, n, k, false))
      EXPECT_EQ(words(one.traffic), 2 * k * static_cast<std::size_t>(ranks - 1));
  }
}

TEST(Ssar, StaysWithinItsBound) {
  const std::size_t n = 6400;
  for (const int ranks : {2, 3, 4, 8, 9, 15, 16})
    for (const auto gradient : kGradients)
      for (const std::size_t k : {64, 1600}) {
        const auto outcomes = reduce(
            ranks, "ssar:coding=plain", n, k,
            [&](int rank, int step) { return gradient(n, rank, step); }, 2);
        const auto p = static_cast<std::size_t>(ranks);
        const bool folds = !std::has_single_bit(p);
        EXPECT_LE(busiest(outcomes), folds ? 6 * k * p : 2 * k * (p - 1)) << "P=" << p;
        for (const Outcome& one : outcomes)
          EXPECT_LE(words(one.traffic), n * one.traffic.messages()) << "P=" << p;
      }
}

// bf16 has 8 bits: 255 + 2 is read as 256 and 255 + 4, halfway, as 260.
TEST(Ssar, LeavesTheErrorOfASharedSetToTheLowestRankAlone) {
  const auto outcomes = reduce("ssar:values=bf16", 1, {{255}, {2}, {255}, {4}});
  for (const Outcome& one : outcomes) EXPECT_EQ(one.sum[0], 256 + 260);
  EXPECT_EQ(outcomes[0].residual[0], 1);
  EXPECT_EQ(outcomes[1].residual[0], 0);
  EXPECT_EQ(outcomes[2].residual[0], -1);
  EXPECT_EQ(outcomes[3].residual[0], 0);
}

// Rank 2 hands 3 to rank 0; 258 is exact; 258 + 255 = 513 is read as 512 by all.
TEST(Ssar, RoundsTheSumAlikeWhereItIsReturned) {
  const auto outcomes = reduce("ssar:values=bf16", 1, {{255}, {255}, {3}});
  for (const Outcome& one : outcomes) EXPECT_EQ(one.sum[0], 512);
  EXPECT_EQ(outcomes[0].residual[0], 1);
  EXPECT_EQ(outcomes[1].residual[0], 0);
  EXPECT_EQ(outcomes[2].residual[0], 0);
}

TEST(Ssar, KeepsTheLawWithManyRanks) {
  for (const int ranks : {7, 16, 33})
    run(ranks, [&](Transport& link) {
      int id = 0;
      for (const char* rest :
           {"values=f32", "values=bf16", "coding=plain,values=i8", "values=i2"})
        for (const Data data : kAllData)
          for (const std::size_t k : {1, 20, 500}) {
            // Two-bit errors of random values are themselves rounded.
            if (data == Data::random && std::string(rest) == "values=i2") continue;
            const Case c{.collective = std::string("ssar:") + rest,
                         .n = 500,
                         .k = k,
                         .data = data};
            const auto part = link.channel(id++);
            const auto wrong = violation(c, *part);
            EXPECT_FALSE(wrong) << c.str(ranks) << ": " << wrong.value_or("");
          }
    });
}

}  // namespace
}  // namespace topknot::testing

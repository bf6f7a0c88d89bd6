// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/one_step.h"
#include "contract.h"
#include "copy_of.h"

namespace topknot::testing {
namespace {

const std::string kOwners[] = {"contiguous", "strided"};

// The published code sends what is above the k-th magnitude and forgets what reaches it.
TEST(TopkDsa, LosesNeitherTheKthNorItsTies) {
  const std::vector<float> equal(7, 3.0F);
  for (const Outcome& one : reduce("topkdsa", 3, {equal, equal})) {
    EXPECT_EQ(one.sum, (std::vector<float>{6, 6, 6, 0, 0, 0, 0}));
    EXPECT_EQ(one.residual, (std::vector<float>{0, 0, 0, 3, 3, 3, 3}));
  }
  const std::vector<float> distinct = {1, -4, 2, 3};
  for (const Outcome& one : reduce("topkdsa", 2, {distinct, distinct, distinct})) {
    EXPECT_EQ(one.sum, (std::vector<float>{0, -12, 0, 9}));
    EXPECT_EQ(one.residual, (std::vector<float>{1, 0, 2, 0}));
  }
}

// The published cuts divide by zero for n < P and lose coordinates where n mod P is not
// below n / P.
TEST(TopkDsa, CutsEveryLengthForEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (std::size_t n = 1; n <= 3 * static_cast<std::size_t>(ranks) + 1; ++n)
      for (const std::string& owner : kOwners) {
        std::vector<std::vector<float>> gradients;
        std::vector<float> total(n);
        for (int r = 0; r < ranks; ++r) {
          gradients.push_back(uncorrelated(n, r, 0));
          total = added(total, gradients.back());
        }
        for (const Outcome& one : reduce("topkdsa:owner=" + owner, n, gradients)) {
          EXPECT_EQ(one.sum, total) << owner << " P=" << ranks << " n=" << n;
          EXPECT_EQ(one.residual, std::vector<float>(n));
        }
      }
}

TEST(TopkDsa, SumsAllSelectionsExactly) {
  const std::size_t n = 300;
  for (const int ranks : {1, 2, 3, 7, 8})
    for (const std::size_t k : {1, 10, 100, 300})
      for (const std::string& owner : kOwners) {
        std::vector<float> total(n);
        for (int r = 0; r < ranks; ++r)
          total = added(total, largest(correlated(n, r, 0), k));
        const auto outcomes =
            reduce(ranks, "topkdsa:coding=plain,owner=" + owner, n, k,
                   [n](int rank, int step) { return correlated(n, rank, step); });
        for (const Outcome& one : outcomes) EXPECT_EQ(one.sum, total);
      }
}

// Two ranks, regions of 100. Rank 0 selects `first` of its own region, rank 1 `second` of
// its own, so that nothing is split and all that travels is the shared sums.
std::vector<Outcome> share(std::size_t first, std::size_t second) {
  std::vector<std::vector<float>> gradients(2, std::vector<float>(200));
  for (std::size_t i = 0; i < first; ++i) gradients[0][i] = 1;
  for (std::size_t i = 0; i < second; ++i) gradients[1][100 + i] = 1;
  std::vector<Outcome> outcomes(2);
  run(2, [&](Transport& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    const auto compressor =
        make_compressor(Spec::parse("threshold:value=0.5"), Layout::flat(200));
    auto traffic = std::make_shared<Traffic>();
    const auto metered = make_metered(link.channel(0), traffic);
    const auto made = make_collective(Spec::parse("topkdsa:coding=plain"), *metered,
                                      *compressor, Layout::flat(200));
    outcomes[rank].sum.assign(200, 0.0F);
    std::vector<float> residual(200);
    const Reduced reduced =
        made->reduce(residual, copy_of(gradients[rank]), 1, outcomes[rank].sum);
    outcomes[rank].count = reduced.count;
    outcomes[rank].traffic = *traffic;
  });
  return outcomes;
}

TEST(TopkDsa, SharesDenseFromHalfARegionOn) {
  for (const auto& [pairs, expected] :
       {std::pair<std::size_t, std::size_t>{0, 0},
        {1, 2},
        {34, 68},  // the published code switches at a third
        {49, 98},
        {50, 100},
        {51, 100},
        {100, 100}}) {
    const auto outcomes = share(pairs, 10);
    EXPECT_EQ(words(outcomes[0].traffic), expected);
    EXPECT_EQ(words(outcomes[1].traffic), 20U) << "the other region is none the denser";
    for (const Outcome& one : outcomes) {
      EXPECT_EQ(one.count, pairs + 10) << "the filling is not part of the sum";
      EXPECT_EQ(std::count(one.sum.begin(), one.sum.end(), 1.0F),
                static_cast<std::ptrdiff_t>(pairs + 10));
    }
  }
}

TEST(TopkDsa, StaysWithinItsBound) {
  const std::size_t n = 6400;
  for (const int ranks : {2, 3, 4, 8, 16})
    for (const auto gradient : kGradients)
      for (const std::size_t k : {64, 640})
        for (const std::string& owner : kOwners)
          for (int steps = 1; steps <= 3; ++steps) {
            const auto outcomes = reduce(
                ranks, "topkdsa:coding=plain,owner=" + owner, n, k,
                [&](int rank, int step) { return gradient(n, rank, step); }, steps);
            EXPECT_LE(busiest(outcomes), 2 * k + std::min(2 * outcomes[0].count, n))
                << owner << " P=" << ranks << " k=" << k << " step " << steps;
          }
}

TEST(TopkDsa, SendsFourKWhenAllSelectTheSame) {
  const std::size_t n = 6400;
  const std::size_t k = 64;
  for (const int ranks : {2, 4, 8, 16}) {
    // One of a hundred coordinates, so each region has as many.
    const auto outcomes = reduce(ranks, "topkdsa:coding=plain", n, k, [&](int, int) {
      std::vector<float> x(n);
      for (std::size_t i = 0; i < n; i += 100) x[i] = 1;
      return x;
    });
    const auto p = static_cast<std::size_t>(ranks);
    for (const Outcome& one : outcomes)
      EXPECT_EQ(words(one.traffic), 4 * k * (p - 1) / p) << "P=" << ranks;
  }
}

/// The words each owner is sent in the split, leaving out its left neighbour, over which
/// the ring goes as well.
std::vector<double> loads(const std::string& owner, int ranks) {
  const std::size_t n = 16000;
  const auto outcomes = reduce(ranks, "topkdsa:coding=plain,owner=" + owner, n, n / 100,
                               [n](int rank, int step) { return skewed(n, rank, step); });
  std::vector<double> load(static_cast<std::size_t>(ranks));
  for (int to = 0; to < ranks; ++to)
    for (int from = 0; from < ranks; ++from)
      if ((from + 1) % ranks != to)
        load[static_cast<std::size_t>(to)] += static_cast<double>(
            words(outcomes[static_cast<std::size_t>(from)].traffic, to));
  return load;
}

TEST(TopkDsa, BalancesASkewedGradientByStrides) {
  for (const int ranks : {4, 8, 9, 16}) {
    const auto imbalance = [&](const std::string& owner) {
      const std::vector<double> load = loads(owner, ranks);
      const double mean = std::accumulate(load.begin(), load.end(), 0.0) / ranks;
      return *std::ranges::max_element(load) / mean;
    };
    EXPECT_LE(imbalance("strided"), 2) << "P=" << ranks;
    EXPECT_GE(imbalance("contiguous"), 0.9 * ranks) << "P=" << ranks;
  }
}

TEST(TopkDsa, KeepsTheLawHoweverItIsOwnedAndCoded) {
  for (const int ranks : {1, 2, 3, 5, 8, 9, 16, 33})
    run(ranks, [&](Transport& link) {
      int id = 0;
      for (const char* rest : {"coding=plain", "coding=plain,values=i8", "values=bf16",
                               "coding=plain,values=i2"})
        for (const Data data : {Data::integers, Data::equal, Data::one_huge})
          for (const std::size_t k : {1, 30, 300}) {
            const Case c{.collective = std::string("topkdsa:owner=strided,") + rest,
                         .n = 301,
                         .k = k,
                         .data = data,
                         .in_place = k == 30};
            const auto part = link.channel(id++);
            const auto wrong = violation(c, *part);
            EXPECT_FALSE(wrong) << c.str(ranks) << ": " << wrong.value_or("");
          }
    });
}

}  // namespace
}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "collectives/training.h"

namespace topknot::testing {
namespace {

using Table = std::vector<std::uint64_t>;

const Table& blocks(const State& state) { return state.tables.at("blocks"); }

/// Where the parts of a vector of `n` begin, and where the last one ends.
Table cuts(const Table& blocks_in, std::uint64_t n) {
  const std::uint64_t all =
      std::accumulate(blocks_in.begin(), blocks_in.end(), std::uint64_t{0});
  Table cut = {0};
  std::uint64_t before = 0;
  for (const std::uint64_t count : blocks_in) {
    before += count;
    const std::uint64_t exact = n * before / all;
    cut.push_back(n < 32 * all || before == all ? exact : exact / 32 * 32);
  }
  return cut;
}

std::vector<long> found_in(const Table& cut, const std::vector<std::uint32_t>& index) {
  std::vector<long> found;
  for (std::size_t j = 0; j + 1 < cut.size(); ++j)
    found.push_back(std::count_if(index.begin(), index.end(), [&](std::uint32_t i) {
      return i >= cut[j] && i < cut[j + 1];
    }));
  return found;
}

/// The allocation as it is published, word for word.
Table published_allocation(Table cnt, std::vector<long> kp) {
  const long ranks = static_cast<long>(cnt.size());
  const long total = std::accumulate(kp.begin(), kp.end(), 0L);
  const long all =
      static_cast<long>(std::accumulate(cnt.begin(), cnt.end(), std::uint64_t{0}));
  const long least = std::max(1L, all / (4 * ranks));
  const long avg = total / ranks;
  if (avg == 0) return cnt;
  for (std::size_t j = 0; j + 1 < cnt.size(); ++j) {
    const double x = static_cast<double>(kp[j]) / static_cast<double>(avg);
    const double y = static_cast<double>(kp[j + 1]) / static_cast<double>(avg);
    if (x > 1.05 && y < 0.95238 && static_cast<long>(cnt[j]) - 1 >= least) {
      --cnt[j], ++cnt[j + 1];
      kp[j] -= total / all, kp[j + 1] += total / all;
    } else if (x < 0.95238 && y > 1.05 && static_cast<long>(cnt[j + 1]) - 1 >= least) {
      ++cnt[j], --cnt[j + 1];
      kp[j] += total / all, kp[j + 1] -= total / all;
    }
  }
  return cnt;
}

/// Large at the front, for everyone.
float front_heavy(int rank, int step, std::size_t i) {
  return laplace(rank, step, i) * (i < 1000 ? 20.0F : 1.0F);
}

TEST(ExDyna, StartsWithEvenParts) {
  const auto steps = train({.collective = "exdyna",
                            .layout = Layout::flat(100),
                            .k = 5,
                            .ranks = 3,
                            .gradient = uncorrelated});
  EXPECT_EQ(blocks(steps[0].before), (Table{342, 341, 341}));
}

TEST(ExDyna, MovesBlocksByThePublishedRule) {
  for (const std::size_t n : {std::size_t{1999}, std::size_t{6000}}) {
    const auto steps = train({.collective = "exdyna:blocks=64",
                              .layout = Layout::flat(n),
                              .k = 200,
                              .ranks = 4,
                              .steps = 60,
                              .gradient = front_heavy});
    int moves = 0;
    for (const Outcome& step : steps) {
      const Table cut = cuts(blocks(step.before), n);
      EXPECT_EQ(blocks(step.after),
                published_allocation(blocks(step.before), found_in(cut, step.index)));
      moves += blocks(step.after) == blocks(step.before) ? 0 : 1;
    }
    EXPECT_GT(moves, 5);
  }
}

TEST(ExDyna, EvensOutWhatThePartsFind) {
  const auto steps = train({.collective = "exdyna:blocks=128",
                            .layout = Layout::flat(4000),
                            .k = 400,
                            .ranks = 4,
                            .steps = 200,
                            .gradient = front_heavy});
  const auto fullest = [&](std::size_t s) {
    const auto found = found_in(cuts(blocks(steps[s].before), 4000), steps[s].index);
    return static_cast<double>(*std::max_element(found.begin(), found.end())) / 100;
  };
  EXPECT_GT(fullest(0), 3.5);
  double last = 0;
  for (std::size_t s = 190; s < 200; ++s) last += fullest(s) / 10;
  EXPECT_LT(last, 1.4);
}

// The parts are runs of blocks, in turn over the ranks, cut at multiples of 32 where
// there are enough coordinates, and each coordinate is judged once.
TEST(ExDyna, FindsTheLargestOfAllThatTheRanksJudge) {
  for (const std::size_t n : {std::size_t{50}, std::size_t{1500}, std::size_t{5000}}) {
    const auto steps = train({.collective = "exdyna:blocks=64",
                              .layout = Layout::flat(n),
                              .k = n / 25,
                              .ranks = 3,
                              .steps = 25,
                              .gradient = front_heavy});
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Table cut = cuts(blocks(steps[s].before), n);
      std::vector<float> magnitude(n);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const std::size_t part = (s + rank) % 3;
        for (std::uint64_t i = cut[part]; i < cut[part + 1]; ++i)
          magnitude[i] = std::abs(steps[s].folded[rank][i]);
      }
      std::vector<float> sorted = magnitude;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      ASSERT_EQ(steps[s].index.size(), n / 25) << "n=" << n << " step " << s;
      for (const std::uint32_t i : steps[s].index)
        EXPECT_GE(magnitude[i], sorted[n / 25 - 1]) << "n=" << n << " step " << s;
    }
  }
}

// Published, fewer than 32 coordinates a block make every part but the last one empty.
TEST(ExDyna, SelectsInShortVectors) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{1023},
                              std::size_t{1500}, std::size_t{32767}})
    for (const int ranks : {1, 4, 7}) {
      const std::size_t k = (n + 9) / 10;
      const auto steps = train({.collective = "exdyna",
                                .layout = Layout::flat(n),
                                .k = k,
                                .ranks = ranks,
                                .steps = 3,
                                .gradient = uncorrelated});
      for (const Outcome& step : steps)
        EXPECT_EQ(step.index.size(), k) << "n=" << n << " P=" << ranks;
    }
}

TEST(ExDyna, DealsAnewWhenTheTableIsOfAnotherJob) {
  const auto alone = make_inproc(1);
  const auto compressor = make_compressor(Spec::parse("topk"), Layout::flat(10));
  for (const Table& table : {Table{512, 512}, Table{7}, Table{}}) {
    const auto made =
        make_collective(Spec::parse("exdyna"), *alone[0], *compressor, Layout::flat(10));
    State state = state_of(*made);
    state.tables["blocks"] = table;
    state.loading = true;
    made->visit_state(state);
    EXPECT_EQ(blocks(state_of(*made)), Table{1024});
  }
}

}  // namespace
}  // namespace topknot::testing

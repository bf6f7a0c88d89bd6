// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "collectives/training.h"
#include "topknot/error.h"

namespace topknot::testing {
namespace {

Layout tensors(const std::vector<std::uint64_t>& sizes) {
  Layout layout;
  std::uint64_t offset = 0;
  for (const std::uint64_t size : sizes) {
    layout.tensors.push_back({"t" + std::to_string(offset), offset, {size}});
    offset += size;
  }
  return layout;
}

std::vector<std::uint32_t> chosen_in(const Outcome& step, std::uint64_t begin,
                                     std::uint64_t end) {
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t i : step.index)
    if (i >= begin && i < end) chosen.push_back(i);
  return chosen;
}

std::size_t count_in(const Outcome& step, const TensorSlot& tensor) {
  return chosen_in(step, tensor.offset, tensor.offset + tensor.size()).size();
}

/// The `count` largest of x[begin, end), sorted.
std::vector<std::uint32_t> largest(const std::vector<float>& x, std::uint64_t begin,
                                   std::uint64_t end, std::size_t count) {
  std::vector<std::uint32_t> order(end - begin);
  std::iota(order.begin(), order.end(), static_cast<std::uint32_t>(begin));
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(x[a]) > std::abs(x[b]);
  });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(Deft, SharesKByTheNormsOfTheLayers) {
  const Layout layout = tensors({100, 100, 100});
  const float weights[] = {3, 6, 1};
  const auto steps =
      train({.collective = "deft",
             .layout = layout,
             .k = 40,
             .ranks = 2,
             .gradient = [&](int, int, std::size_t i) { return weights[i / 100]; }});
  EXPECT_EQ(count_in(steps[0], layout.tensors[1]), 24U);  // 40 * 6/10
  EXPECT_EQ(count_in(steps[0], layout.tensors[0]), 12U);  // 16 * 3/4
  EXPECT_EQ(count_in(steps[0], layout.tensors[2]), 4U);   // the rest
}

// Published, every rank goes by its own norms, and the total is only near k.
TEST(Deft, GoesByTheNormsOfTheLeader) {
  const Layout layout = tensors({200, 200, 200});
  const auto steps = train({.collective = "deft",
                            .layout = layout,
                            .k = 60,
                            .ranks = 3,
                            .steps = 3,
                            .gradient = [](int rank, int step, std::size_t i) {
                              const bool own = i / 200 == static_cast<std::size_t>(rank);
                              return laplace(rank, step, i) * (own ? 1000.0F : 1.0F);
                            }});
  for (std::size_t s = 0; s < 3; ++s) {
    EXPECT_GT(count_in(steps[s], layout.tensors[s]), 50U) << "step " << s;
    EXPECT_EQ(steps[s].index.size(), 60U);
  }
}

TEST(Deft, SelectsExactlyKWhateverTheLayers) {
  std::vector<std::uint64_t> many;
  for (std::uint64_t i = 0; i < 60; ++i) many.push_back(1 + i * i % 17);
  const std::vector<std::vector<std::uint64_t>> layouts = {
      {500}, {1, 1, 1, 500, 1}, {300, 3, 200, 2, 100, 1}, many};
  for (const auto& sizes : layouts)
    for (const int ranks : {1, 2, 5}) {
      const Layout layout = tensors(sizes);
      for (const std::size_t k : {std::size_t{1}, std::size_t{7}, std::size_t{50},
                                  static_cast<std::size_t>(layout.size() - 1)}) {
        const auto steps =
            train({.collective = "deft",
                   .layout = layout,
                   .k = k,
                   .ranks = ranks,
                   .steps = 6,
                   .gradient = [](int rank, int step, std::size_t i) {
                     // Norms so unequal that some layers are used up.
                     return laplace(rank, step, i) * (i % 100 == 0 ? 1e4F : 1.0F);
                   }});
        for (const Outcome& step : steps)
          EXPECT_EQ(step.index.size(), k)
              << sizes.size() << " tensors, P=" << ranks << " k=" << k;
      }
    }
}

// In each layer one rank's largest are chosen, and within P steps that is every rank in
// turn, as far as the packing stays the same. A tensor longer than n / P is cut.
TEST(Deft, LetsOneRankJudgeEachLayer) {
  const Layout layout = tensors({40, 320, 40});
  const std::uint64_t cuts[] = {0, 40, 120, 200, 280, 360, 400};
  const auto steps = train({.collective = "deft",
                            .layout = layout,
                            .k = 60,
                            .ranks = 4,
                            .steps = 12,
                            .gradient = uncorrelated});
  std::vector<int> judged(4);
  for (const Outcome& step : steps)
    for (std::size_t piece = 0; piece + 1 < std::size(cuts); ++piece) {
      const auto chosen = chosen_in(step, cuts[piece], cuts[piece + 1]);
      int judges = 0;
      for (std::size_t rank = 0; rank < 4; ++rank) {
        if (chosen !=
            largest(step.folded[rank], cuts[piece], cuts[piece + 1], chosen.size()))
          continue;
        ++judges;
        ++judged[rank];
      }
      EXPECT_GE(judges, 1);
    }
  for (const int count : judged) EXPECT_GE(count, 12);
}

TEST(Deft, SpreadsTheWork) {
  const auto steps = train({.collective = "deft:coding=plain",
                            .layout = Layout::flat(4000),
                            .k = 400,
                            .ranks = 4,
                            .steps = 4,
                            .gradient = uncorrelated});
  // In the ring the rank to the left of an empty block would send more than three parts.
  for (const Outcome& step : steps)
    for (const Sent& sent : step.sent)
      EXPECT_NEAR(static_cast<double>(sent.positions), 300, 30);
}

TEST(Deft, RefusesAnotherVectorThanItWasMadeFor) {
  const auto alone = make_inproc(1);
  const auto compressor = make_compressor(Spec::parse("topk"), Layout::flat(10));
  const auto made =
      make_collective(Spec::parse("deft"), *alone[0], *compressor, Layout::flat(10));
  std::vector<float> x(11);
  EXPECT_THROW(made->reduce(x, x, 1, x), ContractError);
}

}  // namespace
}  // namespace topknot::testing

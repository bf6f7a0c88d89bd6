// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "topknot/catalog.h"

namespace topknot {
namespace {

std::vector<std::uint32_t> draw(Compressor& compressor, std::size_t n, std::size_t k,
                                float fill = 1) {
  std::vector<float> residual(n, fill);
  Sparse out;
  EXPECT_TRUE(compressor.select(residual, {}, k, out));
  return out.index;
}

TEST(RandomK, IsTheSameOnRanksWithOtherGradients) {
  const auto one = make_compressor(Spec::parse("randomk:seed=5"), Layout::flat(1000));
  const auto two = make_compressor(Spec::parse("randomk:seed=5"), Layout::flat(1000));
  for (int step = 0; step < 20; ++step)
    EXPECT_EQ(draw(*one, 1000, 30, 1), draw(*two, 1000, 30, -7));
}

TEST(RandomK, StaysTheSameAfterAStepThatOnlyOneRankCouldNotTake) {
  const auto well = make_compressor({"randomk", {}}, Layout::flat(100));
  const auto nonfinite = make_compressor({"randomk", {}}, Layout::flat(100));
  draw(*well, 100, 10);
  std::vector<float> residual(100, std::numeric_limits<float>::quiet_NaN());
  Sparse out;
  EXPECT_FALSE(nonfinite->select(residual, {}, 10, out));
  EXPECT_EQ(draw(*well, 100, 10), draw(*nonfinite, 100, 10));
}

TEST(RandomK, DiffersFromStepToStepAndFromSeedToSeed) {
  const auto one = make_compressor(Spec::parse("randomk:seed=1"), Layout::flat(1000));
  const auto two = make_compressor(Spec::parse("randomk:seed=2"), Layout::flat(1000));
  const auto first = draw(*one, 1000, 30);
  EXPECT_NE(first, draw(*one, 1000, 30));
  EXPECT_NE(first, draw(*two, 1000, 30));
}

TEST(RandomK, GivesEveryCoordinateTheSameChance) {
  constexpr int kSteps = 20000;
  for (const auto& [n, k] : {std::pair<std::size_t, std::size_t>{33, 20}, {100, 7}}) {
    const auto compressor = make_compressor({"randomk", {}}, Layout::flat(n));
    std::vector<int> hits(n);
    for (int step = 0; step < kSteps; ++step)
      for (const std::uint32_t i : draw(*compressor, n, k)) ++hits[i];
    const double chance = static_cast<double>(k) / static_cast<double>(n);
    const double deviation = std::sqrt(kSteps * chance * (1 - chance));
    for (const int hit : hits) EXPECT_NEAR(hit, kSteps * chance, 5 * deviation);
  }
}

}  // namespace
}  // namespace topknot

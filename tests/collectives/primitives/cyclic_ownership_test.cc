// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/cyclic_ownership.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace topknot::collective {
namespace {

/// As docs/knot.md has it.
std::size_t owner_of(std::uint64_t i, std::uint64_t n, std::uint64_t ranks,
                     std::uint64_t turn) {
  const std::uint64_t block =
      std::bit_floor(std::clamp<std::uint64_t>(n / (16 * ranks), 1, 256));
  return (i / block + turn) % ranks;
}

Sparse some_of(std::uint64_t n, double density, std::uint64_t seed) {
  core::Random random(seed);
  Sparse pairs;
  for (std::uint32_t i = 0; i < n; ++i)
    if (random.uniform() < density) pairs.push_back(i, static_cast<float>(i) + 0.5F);
  return pairs;
}

/// Deals, and holds every part to one that is dealt pair by pair.
void hold(std::uint64_t n, int ranks, std::uint64_t turn, double density) {
  SCOPED_TRACE(std::to_string(n) + " on " + std::to_string(ranks) + ", turn " +
               std::to_string(turn) + ", density " + std::to_string(density));
  const CyclicOwnership ownership(n, ranks, turn);
  const Sparse pairs = some_of(n, density, n + turn);
  std::vector<Sparse> expected(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < pairs.size(); ++i)
    expected[owner_of(pairs.index[i], n, static_cast<std::uint64_t>(ranks), turn)]
        .push_back(pairs.index[i], pairs.value[i]);
  std::vector<Sparse> parts(1, Sparse{{7}, {7}});  // of an earlier step
  ownership.deal(pairs, parts);
  ASSERT_EQ(parts.size(), expected.size());
  for (int r = 0; r < ranks; ++r) {
    const Sparse& part = parts[static_cast<std::size_t>(r)];
    Sparse outside;
    std::uint64_t next = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_GE(part.index[i], next);
      next = part.index[i] + std::uint64_t{1};
      outside.push_back(ownership.outside(r)(part.index[i]), part.value[i]);
    }
    ASSERT_LE(next, ownership.size(r));
    ASSERT_EQ(outside, expected[static_cast<std::size_t>(r)]);
  }
}

TEST(CyclicOwnership, DealsEveryPairToItsOwnerAndKnowsTheWayBack) {
  for (const std::uint64_t n :
       {0, 1, 2, 15, 16, 17, 100, 255, 256, 257, 8191, 8192, 30001})
    for (const int ranks : {1, 2, 3, 4, 7})
      for (const std::uint64_t turn : {0, 1, 2, 12345})
        for (const double density : {0.0, 0.01, 0.3, 1.0}) hold(n, ranks, turn, density);
}

TEST(CyclicOwnership, SharesOutAllCoordinates) {
  for (const std::uint64_t n : {0, 1, 31, 5000, 65537})
    for (const int ranks : {1, 2, 3, 8})
      for (std::uint64_t turn = 0; turn < 9; ++turn) {
        std::vector<std::uint64_t> size(static_cast<std::size_t>(ranks));
        for (std::uint64_t i = 0; i < n; ++i)
          ++size[owner_of(i, n, static_cast<std::uint64_t>(ranks), turn)];
        for (int r = 0; r < ranks; ++r)
          ASSERT_EQ(CyclicOwnership(n, ranks, turn).size(r),
                    size[static_cast<std::size_t>(r)]);
      }
}

TEST(CyclicOwnership, ReachesTheLastCoordinateThatAPositionCanSay) {
  constexpr std::uint32_t kLast = 0xFFFFFFFE;
  const Sparse pairs{{0, kLast}, {1, 2}};
  for (const int ranks : {1, 2, 3, 1000}) {
    const CyclicOwnership ownership(std::uint64_t{kLast} + 1, ranks, 5);
    std::vector<Sparse> parts;
    ownership.deal(pairs, parts);
    std::vector<std::uint32_t> found;
    for (int r = 0; r < ranks; ++r)
      for (const std::uint32_t place : parts[static_cast<std::size_t>(r)].index)
        found.push_back(ownership.outside(r)(place));
    std::ranges::sort(found);
    EXPECT_EQ(found, pairs.index);
  }
}

}  // namespace
}  // namespace topknot::collective

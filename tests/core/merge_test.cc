// SPDX-License-Identifier: Apache-2.0
#include "core/merge.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "core/every_target.h"
#include "core/random.h"
#include "topknot/error.h"

namespace topknot::core {
namespace {

Sparse sparse(const std::map<std::uint32_t, float>& pairs) {
  Sparse x;
  for (const auto& [index, value] : pairs) x.push_back(index, value);
  return x;
}

// The positions whose bit is set in `mask`.
Sparse positions(unsigned mask, float scale) {
  Sparse x;
  for (std::uint32_t i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0) x.push_back(i, scale * static_cast<float>(i + 1));
  }
  return x;
}

Sparse expected_sum(SparseView a, SparseView b) {
  std::map<std::uint32_t, float> sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum[a.index[i]] = a.value[i];
  for (std::size_t j = 0; j < b.size(); ++j) {
    const auto [at, fresh] = sum.emplace(b.index[j], b.value[j]);
    if (!fresh) at->second += b.value[j];
  }
  return sparse(sum);
}

std::vector<std::uint32_t> sorted(const std::set<std::uint32_t>& s) {
  return {s.begin(), s.end()};
}

TEST(Add, IsRightForAllSmallSets) {
  Sparse out;
  for (unsigned a = 0; a < 64; ++a) {
    for (unsigned b = 0; b < 64; ++b) {
      const Sparse x = positions(a, 1);
      const Sparse y = positions(b, -0.5F);
      add(x, y, out);
      ASSERT_EQ(out, expected_sum(x, y)) << a << " and " << b;
    }
  }
}

TEST(Add, KeepsASumThatCancels) {
  Sparse out;
  add(sparse({{3, 1.0F}, {9, 2.0F}}), sparse({{3, -1.0F}}), out);
  EXPECT_EQ(out, sparse({{3, 0.0F}, {9, 2.0F}}));
}

TEST(Add, KeepsTheSignOfAZeroThatStandsAlone) {
  Sparse out;
  add(sparse({{1, -0.0F}, {2, 0.0F}, {5, -0.0F}, {9, 1.0F}}),
      sparse({{3, -0.0F}, {4, 0.0F}, {5, -0.0F}, {8, 1.0F}}), out);
  EXPECT_EQ(bits(out.value),
            bits(std::vector<float>{-0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 1.0F, 1.0F}));
}

TEST(Add, HandlesTheLastPosition) {
  Sparse out;
  add(sparse({{0xFFFFFFFE, 1.0F}}), sparse({{0, 2.0F}, {0xFFFFFFFF, 3.0F}}), out);
  EXPECT_EQ(out, sparse({{0, 2.0F}, {0xFFFFFFFE, 1.0F}, {0xFFFFFFFF, 3.0F}}));
}

RC_GTEST_PROP(Add, IsRight,
              (const std::map<std::uint32_t, std::int8_t>& a,
               const std::map<std::uint32_t, std::int8_t>& b)) {
  Sparse x;
  Sparse y;
  for (const auto& [i, v] : a)
    x.push_back(i % 64 + 64 * static_cast<std::uint32_t>(x.size()), v);
  for (const auto& [i, v] : b)
    y.push_back(i % 64 + 64 * static_cast<std::uint32_t>(y.size()), v);
  Sparse out = x;
  add(x, y, out);
  RC_ASSERT(out == expected_sum(x, y));
}

TEST(Intersect, IsRightForAllSmallSets) {
  std::vector<std::uint32_t> out = {4, 5, 6};
  for (unsigned a = 0; a < 64; ++a) {
    for (unsigned b = 0; b < 64; ++b) {
      intersect(positions(a, 1).index, positions(b, 1).index, out);
      ASSERT_EQ(out, positions(a & b, 1).index) << a << " and " << b;
    }
  }
}

RC_GTEST_PROP(Intersect, IsRight, (const std::set<std::uint32_t>& a)) {
  std::set<std::uint32_t> b = *rc::gen::arbitrary<std::set<std::uint32_t>>();
  for (const std::uint32_t i : a) {
    if (i % 3 == 0) b.insert(i);
  }
  std::vector<std::uint32_t> want;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(want));
  std::vector<std::uint32_t> out;
  intersect(sorted(a), sorted(b), out);
  RC_ASSERT(out == want);
}

TEST(Split, CutsWhereThePositionsReachTheCut) {
  const std::vector<std::uint32_t> index = {0, 3, 4, 9, 0xFFFFFFFF};
  const std::vector<std::uint64_t> cuts = {0, 0, 3, 4, 5, 5, 10, 0x100000000};
  std::vector<std::size_t> at = {1, 2};
  split(index, cuts, at);
  EXPECT_EQ(at, (std::vector<std::size_t>{0, 0, 1, 2, 3, 3, 4, 5}));
  split({}, cuts, at);
  EXPECT_EQ(at, std::vector<std::size_t>(8, 0));
  split(index, {}, at);
  EXPECT_TRUE(at.empty());
}

RC_GTEST_PROP(Split, PutsEveryPositionIntoItsPart, (const std::set<std::uint8_t>& set)) {
  const std::vector<std::uint32_t> index(set.begin(), set.end());
  auto cuts = *rc::gen::container<std::vector<std::uint64_t>>(
      rc::gen::inRange<std::uint64_t>(0, 300));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::size_t> at;
  split(index, cuts, at);
  RC_ASSERT(at.size() == cuts.size());
  for (std::size_t j = 0; j < cuts.size(); ++j) {
    for (std::size_t i = 0; i < index.size(); ++i) {
      RC_ASSERT((i < at[j]) == (index[i] < cuts[j]));
    }
  }
}

TEST(ScatterAdd, AddsAtThePositionsAndNowhereElse) {
  std::vector<float> dense = {1, 2, 3, 4};
  scatter_add(sparse({{0, 10.0F}, {3, -4.0F}}), dense);
  EXPECT_EQ(dense, (std::vector<float>{11, 2, 3, 0}));
}

TEST(Erase, ClearsThePositionsAndNothingElse) {
  std::vector<float> dense = {1, std::numeric_limits<float>::quiet_NaN(), -3, 4};
  core::erase(std::vector<std::uint32_t>{1, 2}, dense);
  EXPECT_EQ(bits(dense), bits(std::vector<float>{1, 0, 0, 4}));
}

TEST(Gather, ReadsThePositions) {
  const std::vector<float> dense = {1, -0.0F, 3, 4};
  std::vector<float> out(3);
  gather(dense, std::vector<std::uint32_t>{3, 1, 3}, out);
  EXPECT_EQ(bits(out), bits(std::vector<float>{4, -0.0F, 4}));
}

TEST(Gather, RefusesRoomForMoreOrFewer) {
  const std::vector<float> dense = {1, 2, 3};
  for (const std::size_t room : {0, 1, 3}) {
    std::vector<float> out(room);
    EXPECT_THROW(gather(dense, std::vector<std::uint32_t>{0, 2}, out), ContractError);
  }
}

TEST(Merge, ScatteringASumIsScatteringBoth) {
  Random random(1);
  Sparse a;
  Sparse b;
  for (std::uint32_t i = 0; i < 10000; ++i) {
    if (random.below(7) == 0) a.push_back(i, static_cast<float>(random.below(100)));
    if (random.below(5) == 0) b.push_back(i, static_cast<float>(random.below(100)));
  }
  Sparse sum;
  add(a, b, sum);
  std::vector<float> once(10000);
  std::vector<float> twice(10000);
  scatter_add(sum, once);
  scatter_add(a, twice);
  scatter_add(b, twice);
  EXPECT_EQ(once, twice);
  std::vector<float> values(sum.size());
  gather(once, sum.index, values);
  EXPECT_EQ(values, sum.value);
  core::erase(sum.index, once);
  EXPECT_EQ(once, std::vector<float>(10000));
}

TEST(DropZeros, KeepsTheOrderAndDropsZerosOfEitherSign) {
  Sparse pairs = {{1, 4, 5, 8, 9}, {0.0F, 2.0F, -0.0F, -1e-45F, 0.0F}};
  drop_zeros(pairs);
  EXPECT_EQ(pairs, (Sparse{{4, 8}, {2.0F, -1e-45F}}));
  keep_if(pairs, [](float value) { return value < 0; });
  EXPECT_EQ(pairs, (Sparse{{8}, {-1e-45F}}));
}

}  // namespace
}  // namespace topknot::core

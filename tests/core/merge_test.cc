// SPDX-License-Identifier: Apache-2.0
#include "core/merge.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
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

TEST(Divide, DividesAtThePositionsAndNowhereElse) {
  std::vector<float> dense = {3, 6, 9, 12};
  const std::vector<std::uint32_t> index = {1, 3};
  std::vector<float> out(2);
  divide(index, 3, dense, out);
  EXPECT_EQ(dense, (std::vector<float>{3, 2, 9, 4}));
  EXPECT_EQ(out, (std::vector<float>{2, 4}));
  divide(index, 2, dense, {});
  EXPECT_EQ(dense, (std::vector<float>{3, 1, 9, 2}));
  std::vector<float> three(3);
  EXPECT_THROW(divide(index, 2, dense, three), ContractError);
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

std::vector<std::uint32_t> drawn_positions(std::uint64_t n, double density,
                                           Random& random) {
  std::vector<std::uint32_t> index;
  for (std::uint32_t i = 0; i < n; ++i)
    if (random.uniform() < density) index.push_back(i);
  return index;
}

TEST(Add, IsRightForLongListsOfAnyShape) {
  Random random(2);
  Sparse out;
  const auto with_values = [&](std::vector<std::uint32_t> index) {
    Sparse x{std::move(index), {}};
    for (std::size_t i = 0; i < x.index.size(); ++i) x.value.push_back(random.laplace());
    return x;
  };
  std::vector<std::uint32_t> row(5000);
  std::iota(row.begin(), row.end(), 0U);
  const auto some = [&](std::size_t first, std::size_t last) {
    return with_values({row.begin() + static_cast<std::ptrdiff_t>(first),
                        row.begin() + static_cast<std::ptrdiff_t>(last)});
  };
  std::vector<Sparse> lists = {some(0, 1023),    some(0, 1024),    some(0, 1025),
                               some(2000, 5000), some(3976, 5000), some(100, 1200),
                               some(1024, 2048)};
  for (const double density : {0.2, 0.25, 0.5, 0.9})
    lists.push_back(with_values(drawn_positions(6000, density, random)));
  for (const Sparse& a : lists) {
    for (const Sparse& b : lists) {
      add(a, b, out);
      ASSERT_EQ(out, expected_sum(a, b)) << a.size() << " and " << b.size();
    }
  }
}

std::vector<std::uint32_t> expected_places(const std::vector<std::uint32_t>& a,
                                           const std::vector<std::uint32_t>& b) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < a.size(); ++i)
    if (std::ranges::binary_search(b, a[i])) places.push_back(i);
  return places;
}

TEST(CommonPlaces, IsRightForAllSmallSets) {
  std::vector<std::uint32_t> places = {9, 9, 9};
  for (unsigned a = 0; a < 64; ++a) {
    for (unsigned b = 0; b < 64; ++b) {
      const auto x = positions(a, 1).index;
      const auto y = positions(b, 1).index;
      common_places(x, y, places);
      ASSERT_EQ(places, expected_places(x, y)) << a << " and " << b;
    }
  }
}

TEST(CommonPlaces, IsRightAtEveryDensityAcrossWindows) {
  Random random(1);
  std::vector<std::uint32_t> places;
  for (const std::uint64_t n : {16383, 16384, 16385, 32769, 100000}) {
    for (const double in_a : {0.0002, 0.01, 0.3, 1.0}) {
      for (const double in_b : {0.0002, 0.01, 0.3, 1.0}) {
        const auto a = drawn_positions(n, in_a, random);
        const auto b = drawn_positions(n, in_b, random);
        common_places(a, b, places);
        ASSERT_EQ(places, expected_places(a, b)) << n << ", " << in_a << ", " << in_b;
      }
    }
  }
}

TEST(CommonPlaces, FindsWhatIsJustInsideAndJustBehindAWindow) {
  constexpr std::uint32_t kLast = 0xFFFFFFFF;
  std::vector<std::uint32_t> places;
  for (const std::uint32_t begin : {0U, 5U, kLast - 16390, kLast - 16384, kLast - 3}) {
    std::vector<std::uint32_t> a = {begin};
    for (const std::uint32_t step : {1U, 16382U, 1U, 1U, 1U})
      if (a.back() <= kLast - step) a.push_back(a.back() + step);
    for (std::uint32_t left_out = 0; left_out < 32; ++left_out) {
      std::vector<std::uint32_t> b;
      for (std::size_t i = 0; i < a.size(); ++i)
        if ((left_out >> i & 1) == 0) b.push_back(a[i]);
      common_places(a, b, places);
      ASSERT_EQ(places, expected_places(a, b));
      common_places(b, a, places);
      ASSERT_EQ(places, expected_places(b, a));
    }
  }
}

// Around how far ahead the lines are asked for.
TEST(Scatter, WritesAddsAndErasesAtEveryLength) {
  for (const std::uint32_t n : {0, 1, 2, 63, 64, 65, 128, 1000}) {
    Sparse pairs;
    for (std::uint32_t i = 0; i < n; ++i)
      pairs.push_back(3 * i + 1, static_cast<float>(i));
    std::vector<float> x(3 * n + 2, 10);
    std::vector<float> written = x;
    std::vector<float> added = x;
    std::vector<float> erased = x;
    for (std::uint32_t i = 0; i < n; ++i) {
      written[3 * i + 1] = static_cast<float>(i);
      added[3 * i + 1] += static_cast<float>(i);
      erased[3 * i + 1] = 0;
    }
    std::vector<float> got = x;
    scatter(pairs, got);
    EXPECT_EQ(got, written);
    got = x;
    scatter_add(pairs, got);
    EXPECT_EQ(got, added);
    got = x;
    core::erase(pairs.index, got);
    EXPECT_EQ(got, erased);
  }
}

}  // namespace
}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include "core/front.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "core/awkward.h"
#include "core/every_target.h"
#include "core/sweep.h"

namespace topknot::core {
namespace {

using topknot::testing::kAwkward;

// Around a vector of lanes, a chunk, and two chunks.
constexpr std::size_t kSizes[] = {0,    1,    15,   16,   17,   31,   33,
                                  1023, 1024, 1025, 1039, 2047, 2048, 2049};

Sparse all_of(const std::vector<float>& x) {
  Sparse pairs;
  for (std::size_t i = 0; i < x.size(); ++i)
    pairs.push_back(static_cast<std::uint32_t>(3 * i), x[i]);
  return pairs;
}

Sparse expected_above(const Sparse& pairs, std::uint32_t bits, std::uint64_t ties) {
  Sparse out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::uint32_t each = magnitude_bits(pairs.value[i]);
    if (each < bits || (each == bits && ties == 0)) continue;
    if (each == bits) --ties;
    out.push_back(pairs.index[i], pairs.value[i]);
  }
  return out;
}

void expect_above(const Sparse& pairs, std::uint32_t bits, std::uint64_t ties) {
  Sparse got = pairs;
  keep_above(got, bits, ties);
  const Sparse expected = expected_above(pairs, bits, ties);
  ASSERT_EQ(got.index, expected.index);
  ASSERT_EQ(core::bits(got.value), core::bits(expected.value));
}

TEST(KeepAbove, IsRightOnAwkwardVectorsOnEveryTarget) {
  on_every_target([] {
    for (const auto& kind : kAwkward) {
      for (const std::size_t n : kSizes) {
        SCOPED_TRACE(std::string(kind.name) + ", " + std::to_string(n));
        const Sparse pairs = all_of(kind.vector(n));
        for (const std::size_t at : {std::size_t{0}, n / 3, n - n / 4}) {
          const std::uint32_t bits = at < n ? magnitude_bits(pairs.value[at]) : 0;
          for (const std::uint64_t ties : {0, 1, 2, 16, 500, 1023, 1024, 1025, 9999})
            expect_above(pairs, bits, ties);
          expect_above(pairs, bits + 1, n);
        }
      }
    }
  });
}

TEST(KeepAbove, EndsTheTiesAtAnyPlace) {
  on_every_target([] {
    const Sparse pairs = all_of(std::vector<float>(2100, -0.25F));
    for (std::uint64_t ties = 0; ties <= 2101; ++ties)
      expect_above(pairs, magnitude_bits(0.25F), ties);
  });
}

TEST(KeepAbove, TakesNaNAndInfinityForLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(40, 1.0F);
  x[3] = -kInfinity;
  x[20] = -kNaN;
  x[39] = kNaN;
  on_every_target([&] {
    expect_above(all_of(x), magnitude_bits(1.0F), 0);
    expect_above(all_of(x), kInfinityBits, 1);
  });
}

std::vector<float> expected_between(const std::vector<float>& x, std::uint32_t begin,
                                    std::uint32_t width) {
  std::vector<float> out;
  for (const float v : x)
    if (magnitude_bits(v) >= begin && magnitude_bits(v) < std::uint64_t{begin} + width)
      out.push_back(std::bit_cast<float>(magnitude_bits(v)));
  return out;
}

TEST(CopyBetween, CopiesTheMagnitudesOfARangeElsewhereOrInPlace) {
  on_every_target([] {
    for (const auto& kind : kAwkward) {
      for (const std::size_t n : kSizes) {
        SCOPED_TRACE(std::string(kind.name) + ", " + std::to_string(n));
        const std::vector<float> x = kind.vector(n);
        const std::uint32_t begin = n == 0 ? 0 : magnitude_bits(x[n / 2]);
        for (const std::uint32_t width : {0U, 1U, 2U, 1U << 13, 1U << 22, 1U << 31}) {
          const std::vector<float> expected = expected_between(x, begin, width);
          std::vector<float> got(expected.size() + kCopySlack, -1);
          ASSERT_EQ(copy_between(x, begin, width, got.data()), expected.size());
          got.resize(expected.size());
          ASSERT_EQ(bits(got), bits(expected));
          std::vector<float> place = x;
          ASSERT_EQ(copy_between(place, begin, width, place.data()), expected.size());
          place.resize(expected.size());
          ASSERT_EQ(bits(place), bits(expected));
        }
      }
    }
  });
}

}  // namespace
}  // namespace topknot::core

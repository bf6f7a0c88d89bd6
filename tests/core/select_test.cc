// SPDX-License-Identifier: Apache-2.0
#include "core/select.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "copy_of.h"
#include "core/every_target.h"
#include "core/random.h"
#include "core/sweep.h"
#include "topknot/error.h"
#include "wild.h"

namespace topknot::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

const std::vector<std::size_t> kSizes = {0,  1,  7,   8,   9,    31,   32,   33,  63,
                                         64, 65, 127, 129, 4095, 4096, 4097, 9000};

struct Outcome {
  bool finite = true;
  std::vector<float> residual;
  Sparse out;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.finite == b.finite && bits(a.residual) == bits(b.residual) &&
           a.out.index == b.out.index && bits(a.out.value) == bits(b.out.value);
  }
};

// The contract, one coordinate after the other.
Outcome expected(std::vector<float> residual, std::span<const float> grad,
                 float threshold) {
  Outcome o;
  const std::vector<float> before = residual;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const float sum = grad.empty() ? residual[i] : residual[i] + grad[i];
    if (!std::isfinite(sum)) {
      return {false, before, {}};
    }
    residual[i] = sum;
    if (std::abs(sum) >= threshold) o.out.push_back(static_cast<std::uint32_t>(i), sum);
  }
  o.residual = residual;
  return o;
}

Outcome actual(std::vector<float> residual, std::span<const float> grad,
               float threshold) {
  Outcome o;
  o.out.push_back(77, 7.0F);  // must be replaced
  o.finite = fold_and_select(residual, testing::copy_of(grad), threshold, o.out);
  o.residual = std::move(residual);
  return o;
}

std::vector<float> laplace(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = random.laplace();
  return x;
}

// Integers add without rounding.
std::vector<float> integers(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(random.below(201)) - 100;
  return x;
}

// Calls `body` with every vector of up to `length` values of `alphabet`.
template <typename Body>
void for_all_vectors(std::span<const float> alphabet, std::size_t length, Body body) {
  std::vector<std::size_t> digits;
  while (digits.size() <= length) {
    std::vector<float> x;
    for (const std::size_t d : digits) x.push_back(alphabet[d]);
    body(x);
    std::size_t i = 0;
    while (i < digits.size() && ++digits[i] == alphabet.size()) digits[i++] = 0;
    if (i == digits.size()) digits.push_back(0);
  }
}

TEST(FoldAndSelect, IsRightOnAllSmallVectors) {
  const std::vector<float> alphabet = {0.0F, -0.0F, 1, -1, 2, kNaN, kInfinity};
  const std::vector<float> grad = {1, -1, 0.5F, 0, -2};
  on_every_target([&] {
    for_all_vectors(alphabet, 5, [&](const std::vector<float>& residual) {
      for (const float threshold : {0.0F, 1.0F, 1.5F, kInfinity, kNaN}) {
        const auto g = std::span(grad).first(residual.size());
        ASSERT_EQ(actual(residual, g, threshold), expected(residual, g, threshold));
        ASSERT_EQ(actual(residual, {}, threshold), expected(residual, {}, threshold));
      }
    });
  });
}

TEST(FoldAndSelect, IsRightOnAllSmallPatternsInsideAVector) {
  const std::vector<float> alphabet = {-0.0F, 1, -2, kNaN, -kInfinity};
  on_every_target([&] {
    for_all_vectors(alphabet, 4, [&](const std::vector<float>& pattern) {
      for (const std::size_t at : {0, 6, 29, 62, 126}) {
        std::vector<float> residual(131, 0.5F);
        std::copy(pattern.begin(), pattern.end(), residual.begin() + at);
        const std::vector<float> grad(131, 0.25F);
        ASSERT_EQ(actual(residual, grad, 1), expected(residual, grad, 1));
      }
    });
  });
}

TEST(FoldAndSelect, IsRightAtEverySizeAndAlignment) {
  on_every_target([] {
    for (const std::size_t n : kSizes) {
      const std::vector<float> residual = laplace(n + 8, n);
      const std::vector<float> grad = laplace(n + 8, n + 1);
      for (const std::size_t skip : {0, 1, 3}) {
        std::vector<float> mine = residual;
        const auto part = std::span(mine).subspan(skip, n);
        const auto g = std::span(grad).subspan(5 - skip, n);
        for (const float threshold : {0.0F, 0.5F, 3.0F, 100.0F}) {
          const Outcome want = expected({part.begin(), part.end()}, g, threshold);
          Sparse out;
          ASSERT_TRUE(fold_and_select(part, testing::copy_of(g), threshold, out));
          ASSERT_EQ(bits(part), bits(want.residual));
          ASSERT_EQ(out, want.out) << "n = " << n << ", threshold " << threshold;
        }
        for (std::size_t i = 0; i < mine.size(); ++i) {
          const bool outside = i < skip || i >= skip + n;
          ASSERT_TRUE(!outside || mine[i] == residual[i]) << "at " << i;
        }
      }
    }
  });
}

TEST(FoldAndSelect, TakesAMagnitudeThatEqualsTheThreshold) {
  on_every_target([] {
    const std::vector<float> residual(100, -1.25F);
    EXPECT_EQ(actual(residual, {}, 1.25F).out.size(), 100);
    EXPECT_EQ(actual(residual, {}, std::nextafter(1.25F, 2.0F)).out.size(), 0);
  });
}

TEST(FoldAndSelect, TakesEverythingAtThresholdZeroAndNothingAtNaN) {
  on_every_target([] {
    const std::vector<float> residual = {0.0F, -0.0F, kDenormal, -kMax};
    EXPECT_EQ(actual(residual, {}, 0.0F).out.size(), 4);
    EXPECT_EQ(actual(residual, {}, -0.0F).out.size(), 4);
    EXPECT_EQ(actual(residual, {}, kDenormal).out.size(), 2);
    EXPECT_EQ(actual(residual, {}, kInfinity).out.size(), 0);
    EXPECT_EQ(actual(residual, {}, kNaN).out.size(), 0);
  });
}

// What makes a sum infinite or NaN.
struct Spoil {
  float residual;
  float grad;
};
const std::vector<Spoil> kSpoils = {
    {1, kNaN}, {1, -kInfinity}, {kMax, kMax}, {kNaN, 1}, {kInfinity, -kInfinity}};

TEST(FoldAndSelect, RestoresTheResidualWhereverASumIsNonfinite) {
  const std::size_t n = 4096 + 70;
  const std::vector<float> before = integers(n, 1);
  const std::vector<float> grad = integers(n, 2);
  on_every_target([&] {
    for (std::size_t at = 0; at < n; ++at) {
      const Spoil spoil = kSpoils[at % kSpoils.size()];
      std::vector<float> residual = before;
      std::vector<float> g = grad;
      residual[at] = spoil.residual;
      g[at] = spoil.grad;
      const Outcome o = actual(residual, g, at % 2 == 0 ? 50.0F : kNaN);
      ASSERT_FALSE(o.finite) << "at " << at;
      ASSERT_TRUE(o.out.empty());
      ASSERT_EQ(bits(o.residual), bits(residual)) << "at " << at;
    }
  });
}

TEST(FoldAndSelect, FoldsNothingFromTheFirstSumThatIsNonfinite) {
  const std::size_t n = 300;
  const std::vector<float> before = laplace(n, 3);
  const std::vector<float> grad = laplace(n, 4);
  on_every_target([&] {
    for (std::size_t at = 0; at < n; ++at) {
      for (const Spoil& spoil : kSpoils) {
        std::vector<float> residual = before;
        std::vector<float> g = grad;
        residual[at] = spoil.residual;
        g[at] = spoil.grad;
        ASSERT_EQ(actual(residual, g, 2), expected(residual, g, 2)) << "at " << at;
      }
    }
  });
}

RC_GTEST_PROP(FoldAndSelect, IsRightOnArbitraryBits, (std::vector<std::uint32_t> a)) {
  std::vector<float> residual;
  for (const std::uint32_t v : a) residual.push_back(std::bit_cast<float>(v));
  const float threshold = *rc::gen::element(0.0F, 1e-40F, 1e-3F, 1.0F, 1e20F, kMax);
  const Outcome want = expected(residual, {}, threshold);
  on_every_target([&] { RC_ASSERT(actual(residual, {}, threshold) == want); });
}

TEST(Fold, AddsAndFindsWhatIsNonfinite) {
  on_every_target([] {
    for (const std::size_t n : kSizes) {
      const std::vector<float> before = laplace(n, 5);
      std::vector<float> grad = laplace(n, 6);
      std::vector<float> residual = before;
      ASSERT_TRUE(fold(residual, testing::copy_of(grad)));
      ASSERT_EQ(bits(residual), bits(expected(before, grad, 1).residual));
      if (n == 0) continue;
      grad[n - 1] = kInfinity;
      residual = before;
      ASSERT_FALSE(fold(residual, testing::copy_of(grad)));
      ASSERT_EQ(bits(residual), bits(before));
    }
  });
}

TEST(Fold, RestoresEveryBitWhereverASumIsNonfinite) {
  on_every_target([] {
    const std::vector<float> before = testing::wild(8300, 5);
    for (const std::size_t at :
         {0, 1, 15, 16, 63, 64, 65, 4095, 4096, 4097, 8191, 8299}) {
      std::vector<float> grad = testing::wild(8300, 6);
      grad[at] = at % 2 == 0 ? kNaN : kInfinity;
      std::vector<float> residual = before;
      ASSERT_FALSE(fold(residual, grad));
      ASSERT_EQ(bits(residual), bits(before)) << "not finite at " << at;
    }
  });
}

TEST(UndoFold, RestoresEveryBit) {
  on_every_target([] {
    for (const std::size_t n : kSizes) {
      const std::vector<float> before = testing::wild(n, 7);
      std::vector<float> grad = testing::wild(n, 8);
      std::vector<float> residual = before;
      ASSERT_TRUE(fold(residual, grad));
      ASSERT_EQ(bits(grad), bits(before)) << "the gradient's memory has the old values";
      undo_fold(residual, grad);
      ASSERT_EQ(bits(residual), bits(before));
      undo_fold(residual, {});
      ASSERT_EQ(bits(residual), bits(before));
    }
  });
}

TEST(Fold, RefusesAGradientOfAnotherLength) {
  for (const std::size_t length : {1, 99, 101, 5000}) {
    std::vector<float> residual(100, 1.0F);
    std::vector<float> grad(length, 1.0F);
    Sparse out;
    EXPECT_THROW(static_cast<void>(fold(residual, grad)), ContractError) << length;
    EXPECT_THROW(static_cast<void>(fold_and_select(residual, grad, 0, out)),
                 ContractError);
    EXPECT_EQ(residual, std::vector<float>(100, 1.0F));
  }
}

TEST(CountAtLeast, AgreesWithComparingOneByOne) {
  on_every_target([] {
    for (const std::size_t n : kSizes) {
      std::vector<float> x = laplace(n + 1, n);
      if (n > 8) x[3] = kNaN, x[5] = kInfinity, x[7] = -0.0F;
      const auto part = std::span(x).subspan(1);
      for (const float t : {-1.0F, 0.0F, kDenormal, 1.0F, 5.0F, kInfinity, kNaN}) {
        const auto want = std::count_if(part.begin(), part.end(),
                                        [&](float v) { return std::abs(v) >= t; });
        ASSERT_EQ(count_at_least(part, t), want) << "n = " << n << ", threshold " << t;
      }
    }
  });
}

TEST(Histogram, CountsEachMagnitudeInItsBin) {
  for (const std::size_t n : {0, 1, 5, 1000, 8191, 8192, 8195, (1 << 20) + 7}) {
    Random random(n);
    std::vector<float> x(n);
    for (float& v : x)
      v = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    Histogram want = {};
    Histogram got = {};
    want[5] = got[5] = 12;  // what is there already
    for (const float v : x) ++want[magnitude_bits(v) >> 20];
    add_to_histogram(x, got);
    ASSERT_EQ(got, want) << "n = " << n;
  }
}

TEST(Histogram, HasBinsAnEighthOfAnOctaveWide) {
  EXPECT_EQ(histogram_bin_floor(0), 0.0F);
  EXPECT_EQ(histogram_bin_floor(127 * 8), 1.0F);
  EXPECT_EQ(histogram_bin_floor(127 * 8 + 1), 1.125F);
  EXPECT_EQ(histogram_bin_floor(kNonFiniteBin), kInfinity);
  for (std::size_t bin = 1; bin <= kNonFiniteBin; ++bin) {
    const float floor = histogram_bin_floor(bin);
    Histogram bins = {};
    add_to_histogram(std::vector<float>{floor, -std::nextafter(floor, 0.0F)}, bins);
    ASSERT_EQ(bins[bin], 1) << "bin " << bin;
    ASSERT_EQ(bins[bin - 1], 1) << "bin " << bin;
  }
}

TEST(Histogram, CountsNaNAndInfinityFromTheNonFiniteBinOn) {
  Histogram bins = {};
  add_to_histogram(std::vector<float>{kNaN, -kNaN, kInfinity, -kInfinity, kMax}, bins);
  std::uint64_t count = 0;
  for (std::size_t b = kNonFiniteBin; b < kHistogramBins; ++b) count += bins[b];
  EXPECT_EQ(count, 4);
  EXPECT_EQ(bins[kNonFiniteBin - 1], 1);
}

}  // namespace
}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "copy_of.h"
#include "core/awkward.h"
#include "core/every_target.h"
#include "core/merge.h"
#include "core/naive.h"
#include "core/random.h"
#include "core/select.h"

namespace topknot::core {
namespace {

using topknot::testing::Awkward;
using topknot::testing::kAwkward;
using topknot::testing::kAwkwardSizes;
using topknot::testing::Ranking;
using topknot::testing::same_bits;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

Sparse largest(SparseView x, std::size_t k) {
  Sparse out = Ranking(x.value).largest(k);
  for (std::uint32_t& i : out.index) i = x.index[i];
  return out;
}

Sparse all_of(std::span<const float> x) {
  Sparse all;
  for (std::size_t i = 0; i < x.size(); ++i) {
    all.push_back(static_cast<std::uint32_t>(i), x[i]);
  }
  return all;
}

void expect_same(const Sparse& got, const Sparse& want) {
  ASSERT_EQ(got.index, want.index);
  ASSERT_EQ(bits(got.value), bits(want.value));
}

std::vector<float> laplace(std::size_t n, std::uint64_t seed, float scale = 1) {
  Random random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = random.laplace() * scale;
  return x;
}

float smallest(const Sparse& pairs) {
  float least = kInfinity;
  for (const float v : pairs.value) least = std::min(least, std::abs(v));
  return least;
}

// ---- keep_largest

TEST(KeepLargest, IsRightOnAllSmallVectors) {
  const std::vector<float> alphabet = {0.0F, -0.0F, 1, -1, 2, kDenormal};
  for (std::size_t length = 0; length <= 5; ++length) {
    const auto count = static_cast<std::size_t>(std::pow(alphabet.size(), length));
    for (std::size_t code = 0; code < count; ++code) {
      Sparse x;
      for (std::size_t i = 0, c = code; i < length; ++i, c /= alphabet.size()) {
        x.push_back(static_cast<std::uint32_t>(3 * i + 1), alphabet[c % alphabet.size()]);
      }
      for (std::size_t k = 0; k <= length + 1; ++k) {
        Sparse got = x;
        keep_largest(got, k);
        expect_same(got, largest(x, k));
      }
    }
  }
}

RC_GTEST_PROP(KeepLargest, IsRightAmongManyTies, (std::vector<std::uint8_t> codes)) {
  std::vector<float> x;
  for (const std::uint8_t c : codes) x.push_back(static_cast<float>(c % 7) - 3);
  const Sparse all = all_of(x);
  const auto k = *rc::gen::inRange<std::size_t>(0, x.size() + 2);
  Sparse got = all;
  keep_largest(got, k);
  RC_ASSERT(got == largest(all, k));
}

// Shapes of 10,000 values that take one pass, two or three to tell apart.
std::vector<std::vector<float>> shapes(std::size_t n) {
  std::vector<std::vector<float>> all;
  all.push_back(laplace(n, 1));
  all.emplace_back(n, 0.0F);
  all.emplace_back(n, -1.5F);
  std::vector<float> x = laplace(n, 2);
  std::sort(x.begin(), x.end());
  all.push_back(x);
  std::reverse(x.begin(), x.end());
  all.push_back(x);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i) * kDenormal;
  all.push_back(x);
  // Most of them within a few units in the last place of 1, and one huge.
  Random random(3);
  for (float& v : x) v = 1 + static_cast<float>(random.below(64)) * 0x1p-23F;
  x[n / 2] = std::numeric_limits<float>::max();
  x[n / 3] = 0;
  all.push_back(x);
  for (float& v : x) v = random.below(2) != 0 ? 0.0F : -0.0F;
  all.push_back(x);
  return all;
}

TEST(KeepLargest, IsRightOnEveryShape) {
  for (const std::vector<float>& x : shapes(10000)) {
    const Sparse all = all_of(x);
    for (const std::size_t k : {0, 1, 2, 100, 5000, 7952, 9999, 10000, 10001}) {
      Sparse got = all;
      keep_largest(got, k);
      expect_same(got, largest(all, k));
    }
  }
}

TEST(KeepLargest, TakesNaNAndInfinityForLargest) {
  Sparse x = all_of(std::vector<float>{1, kInfinity, 5, kNaN, -7});
  keep_largest(x, 2);
  EXPECT_EQ(x.index, (std::vector<std::uint32_t>{1, 3}));
}

// Where a bin is as narrow as the table, or narrower, and what is larger lies right above.
TEST(KeepLargest, CountsNothingThatIsAboveTheBinItLooksInto) {
  for (int width = 0; width <= 31; ++width) {
    Random random(static_cast<std::uint64_t>(width));
    std::vector<float> x(10000);
    for (float& v : x)
      v = std::bit_cast<float>(static_cast<std::uint32_t>(
          random.bits() >> 33 >> (31 - (random.below(2) == 0 ? width : width / 2))));
    x[0] = 0;
    const Ranking ranking(x);
    for (const std::size_t k : {1, 10, 1000, 2500, 4999, 5001, 7500, 9000, 9999}) {
      Sparse got = all_of(x);
      keep_largest(got, k);
      ASSERT_TRUE(same_bits(got, ranking.largest(k))) << width << " bits, k = " << k;
    }
  }
}

TEST(KeepLargest, IsRightOnAwkwardVectorsOfEverySize) {
  for (const Awkward& kind : kAwkward)
    for (const std::size_t n : kAwkwardSizes) {
      const std::vector<float> x = kind.vector(n);
      const Ranking ranking(x);
      for (const std::size_t k : {n / 100, n / 10, n / 4, n / 2, n - n / 4, n - n / 9}) {
        Sparse got = all_of(x);
        keep_largest(got, k);
        ASSERT_TRUE(same_bits(got, ranking.largest(k)))
            << kind.name << ", n = " << n << ", k = " << k;
      }
    }
}

// Around 64 times the smallest and the largest number of candidates that are sorted at once.
TEST(KeepLargest, IsRightOnAwkwardVectorsOfVeryMany) {
  for (const Awkward& kind : kAwkward)
    for (const std::size_t n : {131071, 131072, 131137, 1048576, 1200000}) {
      if (n > 200000 &&
          std::string_view(kind.name).find("units") == std::string_view::npos)
        continue;
      const std::vector<float> x = kind.vector(n);
      const Ranking ranking(x);
      for (const std::size_t k : {n / 100, n / 4, n - n / 9}) {
        Sparse got = all_of(x);
        keep_largest(got, k);
        ASSERT_TRUE(same_bits(got, ranking.largest(k)))
            << kind.name << ", n = " << n << ", k = " << k;
      }
    }
}

// ---- ExactTopK

// One step, checked against sorting everything.
void step_and_check(ExactTopK& top, std::vector<float>& residual,
                    std::span<const float> grad, std::size_t k, Sparse& out) {
  std::vector<float> sum = residual;
  if (!grad.empty())
    std::transform(residual.begin(), residual.end(), grad.begin(), sum.begin(),
                   std::plus<>());
  ASSERT_TRUE(top.select(residual, testing::copy_of(grad), k, out));
  ASSERT_EQ(bits(residual), bits(sum));
  expect_same(out, largest(all_of(sum), k));
  if (!out.empty()) {
    ASSERT_EQ(top.threshold(), smallest(out));
  }
}

TEST(ExactTopK, IsRightOnAllSmallVectors) {
  const std::vector<float> alphabet = {0.0F, -0.0F, 1, -1, 2, kNaN, kInfinity};
  for (std::size_t length = 0; length <= 5; ++length) {
    const auto count = static_cast<std::size_t>(std::pow(alphabet.size(), length));
    for (std::size_t code = 0; code < count; ++code) {
      std::vector<float> x;
      for (std::size_t i = 0, c = code; i < length; ++i, c /= alphabet.size()) {
        x.push_back(alphabet[c % alphabet.size()]);
      }
      const bool finite =
          std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
      for (std::size_t k = 0; k <= length + 1; ++k) {
        ExactTopK top;
        Sparse out = all_of(std::vector<float>{7});
        std::vector<float> residual = x;
        ASSERT_EQ(top.select(residual, {}, k, out), finite);
        ASSERT_EQ(bits(residual), bits(x));
        expect_same(out, finite ? largest(all_of(x), k) : Sparse{});
      }
    }
  }
}

TEST(ExactTopK, IsRightAtEverySizeOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t n :
         {0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097}) {
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 10, n, n + 1}) {
        ExactTopK top;
        std::vector<float> residual(n);
        Sparse out;
        for (std::uint64_t step = 0; step < 4; ++step) {
          step_and_check(top, residual, laplace(n, step), k, out);
          core::erase(out.index, residual);
        }
      }
    }
  });
}

// Long enough for the candidates to pile up and the floor to rise in mid-sweep.
TEST(ExactTopK, IsRightOnEveryShapeFromTheFirstStep) {
  for (const std::vector<float>& x : shapes(200000)) {
    for (const std::size_t k : {0, 1, 1000, 100000, 199999, 200000, 200001}) {
      ExactTopK top;
      Sparse out;
      std::vector<float> residual(x.size());
      step_and_check(top, residual, x, k, out);
      step_and_check(top, residual, {}, k, out);
    }
  }
}

TEST(ExactTopK, IsRightOnAwkwardVectorsOfEverySize) {
  for (const Awkward& kind : kAwkward)
    for (const std::size_t n : kAwkwardSizes) {
      std::vector<float> x = kind.vector(n);
      const Ranking ranking(x);
      for (const std::size_t k : {std::size_t{1}, n / 100, n / 4, n - n / 4}) {
        ExactTopK top;
        Sparse out;
        for (int step = 0; step < 2; ++step) {
          ASSERT_TRUE(top.select(x, {}, k, out));
          ASSERT_TRUE(same_bits(out, ranking.largest(k)))
              << kind.name << ", n = " << n << ", k = " << k << ", step " << step;
        }
      }
    }
}

// So many that the candidates just fit, or just do not.
TEST(ExactTopK, IsRightWhereTheRoomForCandidatesEnds) {
  for (const Awkward& kind : kAwkward)
    for (const std::size_t k : {100, 22000})
      for (const std::size_t room : {4 * k, k + 65536})
        for (const std::size_t n : {room, room + 1}) {
          std::vector<float> x = kind.vector(n);
          ExactTopK top;
          Sparse out;
          ASSERT_TRUE(top.select(x, {}, k, out));
          ASSERT_TRUE(same_bits(out, Ranking(x).largest(k)))
              << kind.name << ", n = " << n << ", k = " << k;
        }
}

TEST(ExactTopK, StaysExactFromOneAwkwardVectorToTheNext) {
  const std::size_t n = 9000;
  for (const Awkward& before : kAwkward)
    for (const Awkward& after : kAwkward) {
      ExactTopK top;
      Sparse out;
      std::vector<float> residual = before.vector(n, 1);
      step_and_check(top, residual, {}, 700, out);
      core::erase(out.index, residual);
      step_and_check(top, residual, after.vector(n, 2), 700, out);
      ASSERT_FALSE(HasFatalFailure()) << before.name << ", then " << after.name;
    }
}

TEST(ExactTopK, IsRightOnMillionsOfAwkwardCoordinates) {
  const std::size_t n = 2'500'003;
  for (const Awkward& kind : kAwkward) {
    if (std::string_view(kind.name).find("units in the last") == std::string_view::npos &&
        std::string_view(kind.name).find("Adam") == std::string_view::npos)
      continue;
    std::vector<float> x = kind.vector(n);
    const Ranking ranking(x);
    for (const std::size_t k : {n / 100, n / 3}) {
      ExactTopK top;
      Sparse out;
      ASSERT_TRUE(top.select(x, {}, k, out));
      ASSERT_TRUE(same_bits(out, ranking.largest(k))) << kind.name << ", k = " << k;
    }
  }
}

TEST(ExactTopK, LetsInWhatBeatsTheRisenFloorByAsLittleAsCanBe) {
  std::vector<float> residual(150000, 1.0F);
  residual[140000] = -std::nextafter(1.0F, 2.0F);
  ExactTopK top;
  Sparse out;
  step_and_check(top, residual, {}, 3, out);
  EXPECT_EQ(out.index, (std::vector<std::uint32_t>{0, 1, 140000}));
}

TEST(ExactTopK, HoldsFewCandidatesHoweverTheyCome) {
  std::vector<float> residual(1000000);
  std::iota(residual.begin(), residual.end(), 0.0F);
  ExactTopK top;
  Sparse out;
  step_and_check(top, residual, {}, 10, out);
  EXPECT_LT(out.index.capacity(), 200000);
}

TEST(ExactTopK, StaysExactWhileTheScaleDriftsAMillionfoldUpAndDown) {
  const std::size_t n = 5000;
  ExactTopK top;
  std::vector<float> residual(n);
  Sparse out;
  for (int step = 0; step < 1000; ++step) {
    const double octaves = std::log2(1e6) * (step < 500 ? step : 1000 - step) / 500.0;
    step_and_check(top, residual,
                   laplace(n, static_cast<std::uint64_t>(step),
                           static_cast<float>(std::exp2(octaves))),
                   50, out);
    core::erase(out.index, residual);
  }
}

TEST(ExactTopK, StaysExactWhenTheScaleJumps) {
  const std::size_t n = 200000;
  ExactTopK top;
  Sparse out;
  std::uint64_t step = 0;
  for (const float scale : {1.0F, 1.0F, 1e6F, 1e6F, 1.0F, 1.0F, 0.0F, 0.0F, 1e-6F, 1.0F,
                            0.97F, 0.9F, 0.5F, 3e38F / 20, 1e-38F, 1e-44F, 1.0F}) {
    std::vector<float> residual(n);
    step_and_check(top, residual, laplace(n, ++step, scale), 2000, out);
  }
}

TEST(ExactTopK, StaysExactWhenKChanges) {
  ExactTopK top;
  std::vector<float> residual(200000);
  Sparse out;
  std::uint64_t step = 0;
  for (const std::size_t k : {100, 100, 50000, 50000, 1, 0, 199999, 300000, 10, 20}) {
    step_and_check(top, residual, laplace(residual.size(), ++step), k, out);
    core::erase(out.index, residual);
  }
}

TEST(ExactTopK, GivesTheSameBitsOnEveryTarget) {
  std::vector<Sparse> first;
  on_every_target([&] {
    ExactTopK top;
    std::vector<float> residual(100003);
    std::vector<Sparse> outs(6);
    for (std::uint64_t step = 0; step < outs.size(); ++step) {
      const float scale = step == 3 ? 0.1F : 1.0F;
      ASSERT_TRUE(top.select(residual,
                             testing::copy_of(laplace(residual.size(), step, scale)),
                             1000, outs[step]));
      core::erase(outs[step].index, residual);
    }
    if (first.empty()) first = outs;
    EXPECT_EQ(outs, first);
  });
}

TEST(ExactTopK, RestoresTheResidualWhenASumIsNonfinite) {
  const std::size_t n = 10000;
  Random random(9);
  std::vector<float> residual(n);
  std::vector<float> grad(n);
  for (float& v : grad) v = static_cast<float>(random.below(1000));
  ExactTopK top;
  Sparse out;
  step_and_check(top, residual, grad, 100, out);
  core::erase(out.index, residual);
  const float threshold = top.threshold();
  for (std::size_t at = 0; at < n; at += 37) {
    for (const float bad : {kNaN, -kInfinity}) {
      std::vector<float> spoilt = grad;
      spoilt[at] = bad;
      const std::vector<float> before = residual;
      ASSERT_FALSE(
          top.select(residual, testing::copy_of(spoilt), at % 3 == 0 ? 0 : 100, out));
      ASSERT_TRUE(out.empty());
      ASSERT_EQ(bits(residual), bits(before));
      ASSERT_EQ(top.threshold(), threshold);
    }
  }
  step_and_check(top, residual, grad, 100, out);
}

TEST(ExactTopK, NeedsNoMoreMemoryOnceItHasSettled) {
  ExactTopK top;
  std::vector<float> residual(200000);
  Sparse out;
  const auto step = [&](std::uint64_t seed) {
    ASSERT_TRUE(top.select(residual, testing::copy_of(laplace(residual.size(), seed)),
                           20000, out));
    core::erase(out.index, residual);
  };
  for (std::uint64_t s = 0; s < 5; ++s) step(s);
  out.index.shrink_to_fit();
  out.reserve(30000);
  const std::uint32_t* const index = out.index.data();
  for (std::uint64_t s = 5; s < 50; ++s) step(s);
  EXPECT_EQ(out.index.data(), index);
}

}  // namespace
}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include "compressors/trials.h"
#include "core/quantile.h"
#include "core/select.h"

namespace topknot::testing {
namespace {

struct Fit {
  double mean;
  double deviation;
};

Fit fit(std::span<const float> x) {
  double mean = 0;
  for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(x.size());
  double squares = 0;
  for (const float v : x) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / static_cast<double>(x.size() - 1))};
}

/// The published threshold and loop, from the description: the last count.
std::size_t published_count(std::span<const float> x, std::size_t k, int loops) {
  const Fit f = fit(x);
  const double density = static_cast<double>(k) / static_cast<double>(x.size());
  double threshold = f.mean + core::normal_quantile(density / 2) * f.deviation;
  std::size_t count = 0;
  for (int i = 0; i < loops; ++i) {
    count = static_cast<std::size_t>(std::count_if(
        x.begin(), x.end(), [&](float v) { return std::abs(v) > threshold; }));
    if (3 * count < 2 * k) {
      threshold *= 0.5;
    } else if (3 * count > 4 * k) {
      threshold *= 1.5;
    } else {
      break;
    }
  }
  return count;
}

TEST(GaussianK, KeepsItsPromise) { expect_promise("gaussiank", half_to_twice); }

TEST(GaussianK, KeepsItsPromiseWithoutCorrections) {
  expect_promise("gaussiank:corrections=0", half_to_twice);
}

TEST(GaussianK, CutsWhereANormalDistributionWould) {
  const std::size_t n = 50000;
  for (const std::size_t k : {50, 500, 5000, 20000}) {
    std::vector<float> residual = vector_of(Kind::gaussian, n);
    const Fit f = fit(residual);
    const double density = static_cast<double>(k) / static_cast<double>(n);
    Sparse out;
    ASSERT_TRUE(make("gaussiank:corrections=0", n)->select(residual, {}, k, out));
    expect_cut_at(residual, core::normal_magnitude_quantile(f.mean, f.deviation, density),
                  out);
    EXPECT_NEAR(static_cast<double>(out.size()) / static_cast<double>(k), 1, 0.2);
  }
}

TEST(GaussianK, CountsBothTailsWhenTheMeanIsNotZero) {
  const std::size_t n = 100000;
  const std::size_t k = 1000;
  for (const double mean : {-3.0, -1.0, 1.0, 3.0}) {
    std::vector<float> residual = vector_of(Kind::gaussian, n);
    for (float& v : residual) v += static_cast<float>(mean);
    const std::size_t published = published_count(residual, k, 1);
    Sparse out;
    ASSERT_TRUE(make("gaussiank:corrections=0", n)->select(residual, {}, k, out));
    const Fit f = fit(residual);
    expect_cut_at(residual, core::normal_magnitude_quantile(f.mean, f.deviation, 0.01),
                  out);
    EXPECT_NEAR(static_cast<double>(out.size()), 1000, 100) << "mean " << mean;
    EXPECT_NE(out.size(), k) << "that is the last resort's count";
    EXPECT_GT(std::abs(static_cast<double>(published) - 1000), 300) << "mean " << mean;
  }
}

TEST(GaussianK, DoesNotStepOverTheBandForEver) {
  // Magnitudes that lie close together, and an estimate from which 0.5 and 1.5 never meet
  // them: 3, 1.5, 2.25, 1.125, ...
  const std::size_t n = 100000;
  const std::size_t k = 10000;
  core::Random random(7);
  std::vector<float> residual(n);
  for (float& v : residual)
    v = (1 + 0.01F * random.uniform()) * (random.below(2) == 0 ? 1.0F : -1.0F);
  const std::size_t published = published_count(residual, k, 1000);
  EXPECT_TRUE(3 * published < 2 * k || 3 * published > 4 * k) << published;
  Sparse out;
  ASSERT_TRUE(make("gaussiank:corrections=32", n)->select(residual, {}, k, out));
  EXPECT_GE(3 * out.size(), 2 * k);
  EXPECT_LE(3 * out.size(), 4 * k);
  EXPECT_NE(out.size(), k) << "that is the last resort's count";
}

TEST(GaussianK, EndsInTheBandOnOrdinaryTails) {
  const std::size_t n = 100000;
  for (const Kind kind : {Kind::laplace, Kind::gaussian, Kind::pareto})
    for (const std::size_t k : {100, 1000, 10000}) {
      std::vector<float> residual = vector_of(kind, n);
      Sparse out;
      ASSERT_TRUE(make("gaussiank", n)->select(residual, {}, k, out));
      EXPECT_GE(3 * out.size(), 2 * k) << static_cast<int>(kind);
      EXPECT_LE(3 * out.size(), 4 * k) << static_cast<int>(kind);
    }
}

TEST(GaussianK, TakesExactlyKOfEqualMagnitudes) {
  std::vector<float> residual = vector_of(Kind::signs, 1000);
  Sparse out;
  ASSERT_TRUE(make("gaussiank", 1000)->select(residual, {}, 10, out));
  EXPECT_EQ(out.index, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
#include "core/quantile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace topknot::core {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NormalQuantile, IsTheOneInTheTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-15);
  EXPECT_NEAR(normal_quantile(0.1586552539314570), 1, 1e-13);
  EXPECT_NEAR(normal_quantile(0.025), 1.959963984540054, 1e-13);
  EXPECT_NEAR(normal_quantile(0.005), 2.575829303548901, 1e-13);
  EXPECT_NEAR(normal_quantile(0.0005), 3.290526731491926, 1e-13);
  EXPECT_NEAR(normal_quantile(1e-9), 5.997807015007687, 1e-12);
  EXPECT_NEAR(normal_quantile(0.975), -1.959963984540054, 1e-13);
}

TEST(NormalQuantile, TakesBackTheTailEverywhere) {
  for (double z = -7; z <= 37; z += 0.01) {
    const double q = normal_tail(z);
    // Near 1 a step of the last bit of q is a long way in z.
    const double allowed = z < 0 ? 1e-15 / std::exp(-0.5 * z * z) + 1e-13 : 1e-13;
    ASSERT_NEAR(normal_quantile(q), z, allowed * std::max(1.0, z)) << z;
  }
}

TEST(NormalQuantile, HasItsEndsAtInfinity) {
  EXPECT_EQ(normal_quantile(0), kInfinity);
  EXPECT_EQ(normal_quantile(-1), kInfinity);
  EXPECT_EQ(normal_quantile(1), -kInfinity);
}

TEST(NormalMagnitudeQuantile, CountsBothTails) {
  EXPECT_NEAR(normal_magnitude_quantile(0, 2, 0.01), 2 * 2.575829303548901, 1e-11);
  for (const double mean : {0.0, 0.1, -0.5, 1.0, -3.0, 40.0})
    for (const double deviation : {0.01, 1.0, 7.0})
      for (const double q : {1e-6, 0.001, 0.01, 0.25, 0.6, 0.999}) {
        const double t = normal_magnitude_quantile(mean, deviation, q);
        const double got =
            normal_tail((t - mean) / deviation) + normal_tail((t + mean) / deviation);
        ASSERT_NEAR(got / q, 1, 1e-9) << mean << " " << deviation << " " << q;
      }
}

TEST(NormalMagnitudeQuantile, HasNothingToSayOfAConstant) {
  EXPECT_EQ(normal_magnitude_quantile(-3, 0, 0.01), 3);
  EXPECT_EQ(normal_magnitude_quantile(0, 0, 0.01), 0);
}

TEST(LogGamma, IsTheLibrarys) {
  for (double x = 1e-8; x < 1e7; x *= 1.07)
    ASSERT_NEAR(log_gamma(x), std::lgamma(x),
                1e-13 * std::max(1.0, std::abs(std::lgamma(x))))
        << x;
}

TEST(GammaTail, IsAnExponentialAtShapeOne) {
  for (double x = 0.01; x < 600; x *= 1.1)
    ASSERT_NEAR(gamma_tail(1, x) / std::exp(-x), 1, 1e-12) << x;
}

TEST(GammaTail, IsTwoNormalTailsAtShapeOneHalf) {
  for (double x = 0.01; x < 300; x *= 1.1)
    ASSERT_NEAR(gamma_tail(0.5, x) / (2 * normal_tail(std::sqrt(2 * x))), 1, 1e-11) << x;
}

TEST(GammaQuantile, TakesBackTheTail) {
  for (const double shape : {0.02, 0.1, 0.3, 0.5, 0.9, 1.0, 1.7, 10.0, 300.0, 2e4, 1e5})
    for (const double q : {1e-9, 1e-4, 0.001, 0.01, 0.25, 0.5, 0.9}) {
      const double x = gamma_quantile(shape, q);
      if (x < 1e-290) continue;
      ASSERT_NEAR(gamma_tail(shape, x) / q, 1, 1e-6) << shape << " " << q << " " << x;
    }
}

TEST(GammaQuantile, IsSmoothWhereTheMethodChanges) {
  for (const double q : {0.001, 0.25})
    EXPECT_NEAR(gamma_quantile(1e5, q) / gamma_quantile(1.0001e5, q), 1, 2e-4);
}

TEST(GammaQuantile, HasItsEnds) {
  EXPECT_EQ(gamma_quantile(2, 1), 0);
  EXPECT_EQ(gamma_quantile(2, 0), kInfinity);
}

}  // namespace
}  // namespace topknot::core

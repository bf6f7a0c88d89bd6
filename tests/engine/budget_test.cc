// SPDX-License-Identifier: Apache-2.0
#include "topknot/budget.h"

#include <gtest/gtest.h>

#include <limits>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot {
namespace {

void expect_split(const Spending& set, std::uint64_t local_steps, double density,
                  std::string_view values) {
  const Split made = split(set);
  EXPECT_EQ(made.local_steps, local_steps);
  EXPECT_EQ(made.density, density);
  EXPECT_EQ(made.values, values);
}

TEST(Budget, SendsAQuarterInTwoBitsEveryFourthStepUnlessToldOtherwise) {
  expect_split({}, 4, 0.25, "i2");
}

TEST(Budget, MakesExchangesRarerAsItShrinks) {
  expect_split({.budget = 1.0 / 16}, 1, 0.25, "i2");
  expect_split({.budget = 1.0 / 17}, 2, 0.25, "i2");
  expect_split({.budget = 1.0 / 40}, 3, 0.25, "i2");
  expect_split({.budget = 0.001}, 63, 0.25, "i2");
}

TEST(Budget, TakesMoreBitsWhenEveryStepMayExchange) {
  expect_split({.budget = 0.1}, 1, 0.25, "i2");
  expect_split({.budget = 1.0 / 8}, 1, 0.25, "i8");
  expect_split({.budget = 1}, 1, 0.25, "i8");
}

TEST(Budget, GivesWayToADensityAndToLocalSteps) {
  expect_split({.density = 0.01}, 1, 0.01, "f32");
  expect_split({.local_steps = 30}, 30, 0.25, "i2");
  expect_split({.density = 0.01, .local_steps = 30}, 30, 0.01, "f32");
  expect_split({.density = 1, .local_steps = 1}, 1, 1, "f32");
}

TEST(Budget, IsRefusedBesideADensityOrLocalSteps) {
  EXPECT_EQ(
      testing::refusal<ConfigError>([] { split({.budget = 0.02, .density = 0.01}); }),
      "A budget decides the density: set one or the other.");
  EXPECT_EQ(
      testing::refusal<ConfigError>([] { split({.budget = 0.02, .local_steps = 4}); }),
      "A budget decides the local steps: set one or the other.");
}

TEST(Budget, RefusesWhatIsNoShare) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double share : {-0.1, 1.5, nan, std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(split({.budget = share}), ConfigError) << share;
    EXPECT_THROW(split({.density = share}), ConfigError) << share;
  }
  EXPECT_THROW(split({.budget = 1e-300}), ConfigError);
}

}  // namespace
}  // namespace topknot

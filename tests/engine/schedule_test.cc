// SPDX-License-Identifier: Apache-2.0
#include "topknot/schedule.h"

#include <gtest/gtest.h>

#include "topknot/error.h"

namespace topknot {
namespace {

TEST(CoordinatesFor, RoundsDownButGivesAtLeastOne) {
  EXPECT_EQ(coordinates_for(0, 0.5), 0U);
  EXPECT_EQ(coordinates_for(10, 0.001), 1U);
  EXPECT_EQ(coordinates_for(100, 0.29), 29U);
  EXPECT_EQ(coordinates_for(1000, 0.0199), 19U);
  EXPECT_EQ(coordinates_for(7, 1), 7U);
}

TEST(Schedule, IsConstantUnlessAskedOtherwise) {
  const auto schedule = make_schedule({"constant", {}}, 0.01);
  EXPECT_EQ(schedule->density(0), 0.01);
  EXPECT_EQ(schedule->density(1U << 30), 0.01);
}

TEST(Schedule, SendsEverythingFirst) {
  const auto schedule = make_schedule(Spec::parse("dense:steps=512"), 0.02);
  EXPECT_EQ(schedule->density(511), 1);
  EXPECT_EQ(schedule->density(512), 0.02);
}

TEST(Schedule, FallsByEqualRatiosAsDgcDoes) {
  const auto schedule =
      make_schedule(Spec::parse("exponential:stages=4,period=10"), 0.25 / 256);
  const double expected[] = {0.25,       0.0625,       0.015625,
                             0.00390625, 0.0009765625, 0.0009765625};
  for (std::uint64_t stage = 0; stage < 6; ++stage) {
    EXPECT_NEAR(schedule->density(10 * stage), expected[stage], 1e-12);
    EXPECT_NEAR(schedule->density(10 * stage + 9), expected[stage], 1e-12);
  }
}

TEST(Schedule, NeverSendsLessThanTheTarget) {
  const auto schedule = make_schedule(Spec::parse("exponential:from=0.1"), 0.5);
  EXPECT_EQ(schedule->density(0), 0.5);
}

TEST(Schedule, RefusesWhatItCannotDo) {
  EXPECT_THROW(make_schedule({"constant", {}}, 0), ConfigError);
  EXPECT_THROW(make_schedule({"constant", {}}, 1.5), ConfigError);
  EXPECT_THROW(make_schedule({"exponentail", {}}, 0.1), ConfigError);
  EXPECT_THROW(make_schedule(Spec::parse("constant:steps=1"), 0.1), ConfigError);
}

}  // namespace
}  // namespace topknot

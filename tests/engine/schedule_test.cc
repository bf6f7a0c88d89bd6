// SPDX-License-Identifier: Apache-2.0
#include "topknot/schedule.h"

#include <gtest/gtest.h>

#include "refusal.h"
#include "topknot/catalog.h"
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

TEST(Schedule, CountsEpochsWhereTheirStepsAreKnown) {
  const Spec dgc = Spec::parse("exponential:stages=4,epochs=2,period=7");
  EXPECT_EQ(make_schedule(dgc, 0.01, 10)->density(19), 0.25);
  EXPECT_LT(make_schedule(dgc, 0.01, 10)->density(20), 0.25);
  EXPECT_EQ(make_schedule(dgc, 0.01, 10)->density(80), 0.01);
  EXPECT_EQ(make_schedule(dgc, 0.01)->density(6), 0.25);
  EXPECT_LT(make_schedule(dgc, 0.01)->density(7), 0.25);
  const Spec dense = Spec::parse("dense:epochs=0.5,steps=3");
  EXPECT_EQ(make_schedule(dense, 0.01, 10)->density(4), 1);
  EXPECT_EQ(make_schedule(dense, 0.01, 10)->density(5), 0.01);
  EXPECT_EQ(make_schedule(dense, 0.01)->density(2), 1);
  EXPECT_EQ(make_schedule(dense, 0.01)->density(3), 0.01);
  // Without epochs= those of the run do not matter.
  EXPECT_EQ(make_schedule(Spec::parse("dense:steps=3"), 0.01, 10)->density(3), 0.01);
  EXPECT_EQ(make_schedule(Spec::parse("dense:epochs=0.001"), 0.01, 10)->density(0), 1);
}

TEST(Schedule, OfDgcIsThatOfItsPaper) {
  const auto schedule =
      make_schedule(Spec::parse(find_scheme("dgc").schedule), 0.001, 70);
  const double published[] = {0.25, 0.0625, 0.015625, 0.004, 0.001, 0.001};
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch)
    EXPECT_NEAR(schedule->density(epoch * 70 + 60) / published[epoch], 1, 0.02) << epoch;
}

TEST(Schedule, OfEverySchemeCanBeMade) {
  for (const Scheme& scheme : schemes())
    EXPECT_EQ(make_schedule(Spec::parse(scheme.schedule), 0.01)->density(1U << 30), 0.01)
        << scheme.name;
}

TEST(Schedule, NeverSendsLessThanTheTarget) {
  const auto schedule = make_schedule(Spec::parse("exponential:from=0.1"), 0.5);
  EXPECT_EQ(schedule->density(0), 0.5);
}

TEST(Schedule, RefusesWhatItCannotDo) {
  EXPECT_REFUSAL(
      make_schedule({"constant", {}}, 0), ConfigError,
      "A density of 0.000000 is not in (0, 1]; 0.01 sends one coordinate in a hundred.");
  EXPECT_REFUSAL(
      make_schedule({"constant", {}}, 1.5), ConfigError,
      "A density of 1.500000 is not in (0, 1]; 0.01 sends one coordinate in a hundred.");
  EXPECT_REFUSAL(make_schedule({"exponentail", {}}, 0.1), ConfigError,
                 "There is no schedule named exponentail; nearest is exponential.");
  EXPECT_REFUSAL(make_schedule(Spec::parse("constant:steps=1"), 0.1), ConfigError,
                 "The schedule constant has no parameter steps; it has none at all.");
  EXPECT_REFUSAL(make_schedule(Spec::parse("dense:epochs=-1"), 0.1), ConfigError,
                 "epochs=-1 is not in 0..1e+06.");
}

}  // namespace
}  // namespace topknot

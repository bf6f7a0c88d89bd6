// SPDX-License-Identifier: Apache-2.0
#include "job/rates.h"

#include <gtest/gtest.h>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

Rates rates(const char* schedule, double warmup = 0) {
  return {Spec::parse(schedule), 0.8, warmup, 0.2, 100};
}

TEST(Rates, RiseInALineThenStay) {
  const Rates constant = rates("constant", 5);
  EXPECT_DOUBLE_EQ(constant.at(0), 0.2);
  EXPECT_DOUBLE_EQ(constant.at(2.5), 0.5);
  EXPECT_DOUBLE_EQ(constant.at(5), 0.8);
  EXPECT_DOUBLE_EQ(constant.at(99), 0.8);
}

TEST(Rates, FallWhenEachEpochOfTheListBegins) {
  const Rates steps = rates("steps:at=10+20,factor=0.5");
  EXPECT_DOUBLE_EQ(steps.at(9.99), 0.8);
  EXPECT_DOUBLE_EQ(steps.at(10), 0.4);
  EXPECT_DOUBLE_EQ(steps.at(20), 0.2);
}

TEST(Rates, FollowHalfAWaveToZero) {
  const Rates cosine = rates("cosine", 10);
  EXPECT_DOUBLE_EQ(cosine.at(10), 0.8);
  EXPECT_NEAR(cosine.at(55), 0.4, 1e-12);
  EXPECT_NEAR(cosine.at(100), 0, 1e-12);
}

TEST(Rates, FallInALineToZero) {
  const Rates linear = rates("linear", 10);
  EXPECT_DOUBLE_EQ(linear.at(10), 0.8);
  EXPECT_DOUBLE_EQ(linear.at(55), 0.4);
  EXPECT_DOUBLE_EQ(linear.at(100), 0);
  EXPECT_DOUBLE_EQ(linear.at(101), 0);
}

TEST(Rates, DecayWithEveryEpoch) {
  const Rates decay = rates("decay:factor=0.5");
  EXPECT_DOUBLE_EQ(decay.at(0.9), 0.8);
  EXPECT_DOUBLE_EQ(decay.at(2.5), 0.2);
}

TEST(Rates, FallWhenTheScoreHasNotImprovedForLong) {
  Rates plateau = rates("plateau:factor=0.5,patience=2");
  for (const double score : {3.0, 2.0, 2.5}) plateau.learn(score);
  EXPECT_DOUBLE_EQ(plateau.at(3), 0.8);
  plateau.learn(2.0);
  EXPECT_DOUBLE_EQ(plateau.at(4), 0.4);
  plateau.learn(1.0);
  plateau.learn(1.1);
  EXPECT_DOUBLE_EQ(plateau.at(6), 0.4);
}

TEST(Rates, RefuseWhatTheyAreNot) {
  EXPECT_REFUSAL(
      rates("cosin"), ConfigError,
      "There is no schedule of the learning rate named cosin; nearest is cosine.");
  EXPECT_REFUSAL(rates("steps:at=20+10"), ConfigError,
                 "steps:at=20+10 is not a list of rising epochs; write at=81+122+155.");
  EXPECT_REFUSAL(rates("steps:at=10+"), ConfigError,
                 "steps:at=10+ is not a list of rising epochs; write at=81+122+155.");
  EXPECT_REFUSAL(rates("steps:at=a"), ConfigError,
                 "steps:at=a is not a list of rising epochs; write at=81+122+155.");
  EXPECT_REFUSAL(rates("constant:factor=1"), ConfigError,
                 "constant has no parameter factor; it has none at all.");
}

}  // namespace
}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "job/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

/// Weights after some steps on gradients that a formula gives.
std::vector<float> after(const char* spec, int steps, const Move& move) {
  const std::vector<std::size_t> sizes = {3};
  const auto optimizer = make_optimizer(Spec::parse(spec), sizes);
  std::vector<float> weight = {1, -2, 0.5F};
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> gradient = {0.5F, 0.25F * static_cast<float>(step), -1};
    optimizer->begin_step();
    optimizer->apply(0, weight, gradient, move);
  }
  return weight;
}

TEST(Sgd, MovesAgainstTheGradientAndTheDecay) {
  const std::vector<float> weight = after("sgd", 1, {.lr = 0.1, .decay = 0.5});
  EXPECT_FLOAT_EQ(weight[0], 1 - 0.1F * (0.5F + 0.5F));
  EXPECT_FLOAT_EQ(weight[1], -2 - 0.1F * (0 - 1.0F));
}

TEST(Optimizer, TakesTheGradientTimesTheScale) {
  for (const char* spec : {"sgd", "sgd:momentum=0.5,nesterov=1", "adam", "adamw"}) {
    const std::vector<std::size_t> sizes = {1};
    const auto scaled = make_optimizer(Spec::parse(spec), sizes);
    const auto plain = make_optimizer(Spec::parse(spec), sizes);
    std::vector<float> one = {0.3F};
    std::vector<float> other = one;
    for (const float gradient : {0.7F, -0.1F, 0.9F}) {
      const float factor = 0.37F;
      const float product = factor * gradient;
      scaled->begin_step();
      scaled->apply(0, one, {&gradient, 1}, {.lr = 0.1, .decay = 0.01, .scale = factor});
      plain->begin_step();
      plain->apply(0, other, {&product, 1}, {.lr = 0.1, .decay = 0.01});
    }
    EXPECT_EQ(one, other) << spec;
  }
}

TEST(Sgd, KeepsAShareOfItsLastMove) {
  const std::vector<float> weight = after("sgd:momentum=0.5", 2, {.lr = 0.1, .decay = 0});
  EXPECT_FLOAT_EQ(weight[0], 1 - 0.1F * 0.5F - 0.1F * 0.75F);
  EXPECT_FLOAT_EQ(weight[2], 0.5F + 0.1F * 1 + 0.1F * 1.5F);
}

TEST(Sgd, LooksAheadWithNesterov) {
  const std::vector<float> weight =
      after("sgd:momentum=0.5,nesterov=1", 1, {.lr = 0.1, .decay = 0});
  EXPECT_FLOAT_EQ(weight[0], 1 - 0.1F * (0.5F + 0.5F * 0.5F));
}

TEST(Sgd, HasMomentumOfTheDecayAloneWhereTheGradientHasItAlready) {
  for (const bool nesterov : {false, true}) {
    const std::vector<std::size_t> sizes = {1};
    const std::string flag = nesterov ? ",nesterov=1" : "";
    const auto plain = make_optimizer(Spec::parse("sgd:momentum=0.5" + flag), sizes);
    const auto behind =
        make_optimizer(Spec::parse("sgd:momentum=0.5,momentum_of=decay" + flag), sizes);
    std::vector<float> one = {2};
    std::vector<float> other = {2};
    float velocity = 0;
    for (const float gradient : {0.7F, -0.1F, 0.9F, 0.0F, 0.3F}) {
      velocity = 0.5F * velocity + gradient;
      const float ahead = nesterov ? gradient + 0.5F * velocity : velocity;
      plain->begin_step();
      plain->apply(0, one, {&gradient, 1}, {.lr = 0.1, .decay = 0.3});
      behind->begin_step();
      behind->apply(0, other, {&ahead, 1}, {.lr = 0.1, .decay = 0.3});
      EXPECT_NEAR(one[0], other[0], 1e-6) << flag;
    }
  }
}

TEST(Adam, MovesByTheRateAtFirstWhateverTheGradient) {
  const std::vector<float> weight = after("adam", 1, {.lr = 0.1, .decay = 0});
  EXPECT_NEAR(weight[0], 0.9, 1e-6);
  EXPECT_NEAR(weight[1], -2, 1e-6);
  EXPECT_NEAR(weight[2], 0.6, 1e-6);
}

TEST(Adam, LeavesTheBiasOfTheFirstStepsInWhenAsked) {
  const std::vector<float> weight = after("adam:correct=0", 1, {.lr = 0.1, .decay = 0});
  EXPECT_NEAR(weight[0], 1 - 0.1 * 0.1 / std::sqrt(0.001), 1e-5);
}

TEST(AdamW, TakesTheDecayOffTheWeight) {
  const std::vector<float> weight = after("adamw", 1, {.lr = 0.1, .decay = 0.5});
  EXPECT_NEAR(weight[0], 1 * (1 - 0.05) - 0.1, 1e-6);
  EXPECT_NEAR(weight[1], -2 * (1 - 0.05), 1e-6);
}

TEST(Optimizer, RefusesANameThatIsNone) {
  const std::vector<std::size_t> sizes = {1};
  EXPECT_REFUSAL(make_optimizer(Spec::parse("sdg"), sizes), ConfigError,
                 "There is no optimizer named sdg; nearest is sgd.");
  EXPECT_REFUSAL(make_optimizer(Spec::parse("sgd:beta1=0.9"), sizes), ConfigError,
                 "sgd has no parameter beta1; there are momentum_of, nesterov and "
                 "momentum.");
}

TEST(Clip, ShortensOnlyWhatIsTooLong) {
  EXPECT_EQ(clip_factor(25, 0), 1);
  EXPECT_EQ(clip_factor(25, 6), 1);
  EXPECT_DOUBLE_EQ(clip_factor(25, 2.5), 0.5);
}

}  // namespace
}  // namespace topknot::train

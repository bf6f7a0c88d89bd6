// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "job/job.h"
#include "job/models.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

/// What is said against a job with these keys; empty when nothing is.
std::string said(std::initializer_list<std::pair<const char*, const char*>> keys) {
  Job job;
  for (const auto& [key, value] : keys) set(job, key, value);
  try {
    check(job);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Check, LetsTheDefaultsPass) { EXPECT_EQ(said({}), ""); }

TEST(Check, LooksEveryNameUp) {
  EXPECT_EQ(said({{"model", "resnet21"}}),
            "There is no model named resnet21; nearest is resnet20.");
  EXPECT_EQ(said({{"optimizer", "sdg"}}),
            "There is no optimizer named sdg; nearest is sgd.");
  EXPECT_EQ(said({{"optimizer", "sgd:beta1=0.9"}}),
            "sgd has no parameter beta1; there are momentum_of, nesterov and momentum.");
  EXPECT_EQ(said({{"outer", "sgd:nestorov=1"}}),
            "sgd has no parameter nestorov; nearest is nesterov (of momentum_of, "
            "nesterov, momentum).");
  EXPECT_EQ(
      said({{"lr_schedule", "cosinus"}}),
      "There is no schedule of the learning rate named cosinus; nearest is cosine.");
  EXPECT_EQ(said({{"lr_schedule", "decay:patience=3"}}),
            "decay has no parameter patience; there is factor.");
  EXPECT_EQ(said({{"scheme", "knott"}}),
            "There is no scheme named knott; nearest is knot. `topknot list` has all.");
  EXPECT_EQ(
      said({{"memory", "residuals"}}),
      "There is no memory named residuals; nearest is residual. `topknot list` has all.");
  EXPECT_EQ(said({{"memory", "residual:momentum=0.9"}}),
            "residual has no parameter momentum; there are decay and lr.");
  EXPECT_EQ(
      said({{"compressor", "topkk"}}),
      "There is no compressor named topkk; nearest is topk. `topknot list` has all.");
  EXPECT_EQ(said({{"compressor", "topk:sample=2"}}),
            "topk has no parameter sample; it has none at all.");
  EXPECT_EQ(
      said({{"collective", "oktop"}}),
      "There is no collective named oktop; nearest is oktopk. `topknot list` has all.");
  EXPECT_TRUE(said({{"scheme", "knot:valeus=bf16"}})
                  .starts_with("The scheme knot has no parameter valeus; nearest is "
                               "values (of "));
  EXPECT_EQ(said({{"density", "0"}}), "");
  EXPECT_EQ(said({{"density_schedule", "exponent"}}),
            "There is no schedule named exponent; nearest is exponential.");
  EXPECT_EQ(said({{"rules", "classifier.*=thick"}}),
            "The rule for classifier.* asks for thick, which is neither dense nor a "
            "density in (0, 1].");
}

TEST(Check, RefusesABudgetThatNothingKeeps) {
  EXPECT_EQ(said({{"budget", "0.02"}, {"density", "0.01"}}),
            "A budget decides the density: set one or the other.");
  EXPECT_EQ(said({{"budget", "0.02"}, {"local_steps", "8"}}),
            "A budget decides the local steps: set one or the other.");
  EXPECT_EQ(said({{"budget", "0.02"}, {"scheme", "oktopk"}}),
            "A budget is for an exchange of updates: set density and local_steps, or "
            "exchange=updates.");
  EXPECT_EQ(said({{"budget", "0.02"}, {"scheme", "oktopk"}, {"exchange", "updates"}}),
            "");
  EXPECT_EQ(said({{"budget", "0.02"}, {"scheme", "dense"}, {"exchange", "updates"}}),
            "The collective dense does not send values of i2, by which a budget is kept: "
            "set density and local_steps instead.");
  EXPECT_EQ(said({{"budget", "0.02"}, {"collective", "knot:values=bf16"}}),
            "The collective knot:values=bf16 does not send values of i2, by which a "
            "budget is kept: set density and local_steps instead.");
}

TEST(Check, RefusesAMemoryThatStepsBesideLocalSteps) {
  EXPECT_EQ(said({{"memory", "adam"}, {"local_steps", "4"}}),
            "The memory adam takes a step on every gradient, and local steps are the "
            "optimizer's: leave the memory out with them.");
  EXPECT_EQ(
      said({{"memory", "dgc"}, {"exchange", "updates"}, {"local_steps", "4"}}),
      "The memory dgc is for gradients: with local steps of updates it is residual.");
}

TEST(Check, RefusesAnOuterOptimizerOfUpdates) {
  EXPECT_EQ(said({{"outer", "sgd"}, {"exchange", "updates"}}),
            "With exchange=updates the mean change moves the weights as it is: leave "
            "outer out, or set exchange=gradients.");
}

TEST(Check, KnowsEveryModelOfTheList) {
  for (const ModelEntry& model : models())
    EXPECT_EQ(said({{"model", std::string(model.name).c_str()}}), "");
}

TEST(Check, SaysWhatIsNearest) {
  EXPECT_EQ(said({{"model", "lstn:width=3"}}),
            "There is no model named lstn; nearest is lstm.");
}

TEST(Check, RefusesPartsThatCannotBeTogether) {
  EXPECT_EQ(said({{"scheme", "exdyna"}, {"compressor", "gaussiank"}}),
            "The collective exdyna cannot work with the compressor gaussiank: it selects "
            "by itself, in a part that is each rank's own. Leave the compressor out, or "
            "take gaussiank with the collective knot.");
  EXPECT_EQ(said({{"scheme", "knot"}, {"compressor", "gaussiank"}}), "");
}

}  // namespace
}  // namespace topknot::train

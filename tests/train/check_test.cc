// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "topknot/error.h"
#include "train/job.h"

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
  const std::pair<const char*, const char*> wrong[] = {
      {"model", "resnet21"},
      {"optimizer", "sdg"},
      {"optimizer", "sgd:beta1=0.9"},
      {"outer", "sgd:nestorov=1"},
      {"lr_schedule", "cosinus"},
      {"lr_schedule", "decay:patience=3"},
      {"scheme", "knott"},
      {"memory", "residuals"},
      {"memory", "residual:momentum=0.9"},
      {"compressor", "topkk"},
      {"compressor", "topk:sample=2"},
      {"collective", "oktop"},
      {"density", "0"},
      {"density_schedule", "exponent"},
      {"rules", "classifier.*=thick"},
  };
  for (const auto& [key, value] : wrong) EXPECT_NE(said({{key, value}}), "") << key;
}

TEST(Check, SaysWhatIsNearest) {
  EXPECT_EQ(said({{"model", "lstn:width=3"}}),
            "There is no model named lstn; nearest is lstm.");
}

TEST(Check, RefusesPartsThatCannotBeTogether) {
  EXPECT_NE(said({{"scheme", "exdyna"}, {"compressor", "gaussiank"}}), "");
  EXPECT_EQ(said({{"scheme", "knot"}, {"compressor", "gaussiank"}}), "");
}

}  // namespace
}  // namespace topknot::train

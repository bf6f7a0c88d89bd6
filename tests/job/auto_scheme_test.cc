// SPDX-License-Identifier: Apache-2.0
#include "job/auto_scheme.h"

#include <gtest/gtest.h>

#include "job/engine_options.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

Job job_with(std::initializer_list<std::pair<const char*, const char*>> settings) {
  Job job;
  set(job, "scheme", "auto");
  for (const auto& [key, value] : settings) set(job, key, value);
  return job;
}

TEST(AutoScheme, IsADecisionBetweenTwoJobsThatAreBothChecked) {
  const Job job = job_with({{"density", "0.02"}, {"exchange", "gradients"}});
  EXPECT_NO_THROW(check(job));
  EXPECT_EQ(sparse_side(job).scheme, "knot");
  EXPECT_EQ(sparse_side(job).density, 0.02);
  std::vector<std::string> notices;
  const Job dense = prepared(dense_side(job), notices);
  EXPECT_EQ(dense.scheme, "dense");
  EXPECT_EQ(dense.exchange, "gradients");
  EXPECT_EQ(dense.local_steps, 1);
}

TEST(AutoScheme, GivesItsParametersToKnotAndItsPartsToTheSparseSide) {
  EXPECT_EQ(sparse_side(job_with({{"scheme", "auto:values=bf16"}})).scheme,
            "knot:values=bf16");
  const Job job = job_with({{"collective", "oktopk"}, {"budget", "0.1"}});
  EXPECT_EQ(sparse_side(job).collective, "oktopk");
  EXPECT_EQ(dense_side(job).collective, "");
  EXPECT_EQ(dense_side(job).budget, 0);
}

TEST(AutoScheme, RefusesWhatLeavesNoChoice) {
  EXPECT_THROW(check(job_with({{"collective", "dense"}})), ConfigError);
  EXPECT_THROW(check(job_with({{"scheme", "auto:taste=sweet"}})), ConfigError);
}

TEST(AutoScheme, AChoiceIsTheSameAfterItWasWrittenDown) {
  const AutoChoice made{.sparse = true, .whole = {"conv1.weight", "fc/weight"}};
  const AutoChoice read = AutoChoice::parse(made.text());
  EXPECT_TRUE(read.sparse);
  EXPECT_EQ(read.whole, made.whole);
  EXPECT_FALSE(AutoChoice::parse(AutoChoice{}.text()).sparse);
  EXPECT_THROW(AutoChoice::parse("perhaps"), ConfigError);
  const Job job = made.apply(job_with({}));
  EXPECT_EQ(job.scheme, "knot");
  EXPECT_EQ(job.whole, made.whole);
  EXPECT_FALSE(is_auto(job));
}

}  // namespace
}  // namespace topknot::train

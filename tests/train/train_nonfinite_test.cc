// SPDX-License-Identifier: Apache-2.0
//
// Runs with steps that are not finite: which end, when, and what is said.
#include "train/nonfinite.h"

#include <gtest/gtest.h>

#include <limits>

#include "train/runs.h"

namespace topknot::train {
namespace {

using testing::train_on;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// 20 steps on two ranks.
Job small_job() {
  Job job;
  job.name = "small";
  job.model = "mlp:hidden=8";
  job.data = "generated:classes=4,size=320,seed=3,side=8";
  job.epochs = 1;
  job.batch = 8;
  job.lr = 0.05;
  job.density = 0.05;
  job.check_every = 0;
  return job;
}

/// Every step but the first is not finite.
Job diverging_job() {
  Job job = small_job();
  job.lr = 1e38;
  return job;
}

/// The outcome where rank 1's weights `name` have a NaN at `where` after `at` steps.
Outcome with_nan(const Job& job, std::uint64_t at, const std::string& name,
                 std::size_t where) {
  std::vector<Outcome> outcomes(3);
  topknot::testing::run(3, [&](Transport& link) {
    TrainOptions options;
    options.testing_only_damage = [&](std::uint64_t step, const std::string& tensor,
                                      std::span<float> weights) {
      if (link.rank() == 1 && step == at && tensor == name) weights[where] = kNan;
    };
    Observer silent;
    outcomes[static_cast<std::size_t>(link.rank())] = train(link, job, options, silent);
  });
  for (const Outcome& one : outcomes) EXPECT_EQ(one.not_finite, outcomes[0].not_finite);
  return outcomes[0];
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(NotFinite, StepEndsTheRunUnlessItMayBeSkipped) {
  const Outcome outcome = train_on(2, diverging_job());
  EXPECT_EQ(outcome.steps, 2U);
  EXPECT_EQ(outcome.skipped_steps, 1U);
  EXPECT_TRUE(has(outcome.not_finite,
                  "Step 1, counted from 0, is not finite: on rank 0 "
                  "the gradient of "))
      << outcome.not_finite;
  EXPECT_EQ(train_on(2, small_job()).not_finite, "");
}

TEST(NotFinite, StepIsBlamedOnTheRankAndTheParameter) {
  for (const std::int64_t accumulate : {1, 2}) {
    Job job = small_job();
    job.accumulate = accumulate;
    const Outcome outcome = with_nan(job, 2, "last.bias", 3);
    EXPECT_EQ(outcome.steps, 3U);
    // The NaN is in one logit, and so in every gradient of rank 1; the first is named.
    EXPECT_TRUE(has(outcome.not_finite,
                    "Step 2, counted from 0, is not finite: on rank 1 "
                    "the gradient of first.weight has "))
        << outcome.not_finite;
  }
}

TEST(NotFinite, RoundOfLocalStepsIsBlamedToo) {
  Job job = small_job();
  job.scheme = "dense";
  job.local_steps = 2;
  const Outcome outcome = with_nan(job, 4, "last.bias", 3);
  EXPECT_EQ(outcome.steps, 6U);
  EXPECT_TRUE(has(outcome.not_finite,
                  "Step 4, counted from 0, is not finite: on rank 1 "
                  "the gradient of first.weight has "))
      << outcome.not_finite;
}

TEST(NotFinite, StepsMayBeSkippedUpToAShare) {
  Job job = diverging_job();
  job.nonfinite = "skip";
  job.skip_limit = 0.5;
  Outcome outcome = train_on(2, job);
  EXPECT_EQ(outcome.skipped_steps, 11U);
  EXPECT_EQ(outcome.steps, 12U) << "there is no point in going on";
  EXPECT_TRUE(has(outcome.not_finite, "11 of the run's 20 steps")) << outcome.not_finite;
  job.skip_limit = 0.9;
  EXPECT_EQ(train_on(2, job).skipped_steps, 19U);
  job.skip_limit = 1;
  outcome = train_on(2, job);
  EXPECT_EQ(outcome.steps, 20U);
  EXPECT_TRUE(has(outcome.not_finite, "The test loss")) << outcome.not_finite;
}

/// Hears of the epochs.
class Epochs final : public Observer {
 public:
  void on_epoch(const EpochRecord& record) override {
    losses.push_back(record.train_loss);
  }
  std::vector<double> losses;
};

TEST(NotFinite, StepsThatWereSkippedAreNotInTheEpochsLoss) {
  Job job = diverging_job();
  job.nonfinite = "skip";
  job.skip_limit = 1;
  job.epochs = 2;
  Epochs epochs;
  Outcome outcome;
  topknot::testing::run(1,
                        [&](Transport& link) { outcome = train(link, job, {}, epochs); });
  ASSERT_EQ(epochs.losses.size(), 2U);
  EXPECT_TRUE(std::isfinite(epochs.losses[0])) << "one step was applied";
  EXPECT_FALSE(std::isfinite(epochs.losses[1])) << "none was";
  EXPECT_TRUE(has(outcome.not_finite, "training loss of the last epoch"))
      << outcome.not_finite;
}

std::string failure_of_losses(double train_loss, double test_loss) {
  const Job job;
  NonfinitePolicy policy(job);
  policy.judge_losses(train_loss, test_loss);
  return policy.failure();
}

TEST(NotFinite, LossesAreJudgedByThemselves) {
  EXPECT_EQ(failure_of_losses(1, 2), "");
  EXPECT_NE(failure_of_losses(kNan, 2), "");
  EXPECT_NE(failure_of_losses(1, std::numeric_limits<double>::infinity()), "");
}

std::string failure_of_skipping(std::size_t steps, std::uint64_t planned, double limit) {
  Job job;
  job.nonfinite = "skip";
  job.skip_limit = limit;
  NonfinitePolicy policy(job);
  policy.plan(planned);
  StepRecord skipped;
  skipped.finite = false;
  for (std::size_t i = 0; i < steps; ++i) policy.judge({&skipped, 1}, [] { return ""; });
  EXPECT_EQ(policy.skipped_steps(), steps);
  return policy.failure();
}

TEST(NotFinite, SharesAreOfTheWholeRun) {
  EXPECT_EQ(failure_of_skipping(2, 20, 0.1), "");
  EXPECT_NE(failure_of_skipping(3, 20, 0.1), "");
  EXPECT_NE(failure_of_skipping(1, 20, 0), "");
  EXPECT_EQ(failure_of_skipping(20, 20, 1), "");
}

}  // namespace
}  // namespace topknot::train

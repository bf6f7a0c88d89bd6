// SPDX-License-Identifier: Apache-2.0
//
// Runs that exchange the change of some local steps: what knot does unless told otherwise.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train/update_jobs.h"

namespace topknot::train {
namespace {

using testing::accuracy_after_resize;
using testing::dense_accuracy;
using testing::expect_resumes;
using testing::kOptimizers;
using testing::small_update_job;
using testing::train_on;

TEST(RoundsOfUpdates, AreTheDefault) {
  Job spelt = small_update_job("adam");
  spelt.exchange = "updates";
  spelt.local_steps = 4;
  spelt.density = 0.25;
  spelt.collective = "knot:values=i2";
  EXPECT_EQ(train_on(2, small_update_job("adam")).weights_hash,
            train_on(2, spelt).weights_hash);
}

TEST(RoundsOfUpdates, LeaveAllRanksWithTheSameWeights) {
  for (const int ranks : {1, 2, 3, 5})
    for (const std::string& optimizer : kOptimizers) {
      Job job = small_update_job(optimizer);
      job.weight_decay = 0.01;
      job.clip = 1;
      EXPECT_EQ(train_on(ranks, job).epochs, 2U) << optimizer;  // which compares
    }
}

TEST(RoundsOfUpdates, LearnWhatTheDenseRunLearns) {
  for (const std::string optimizer : {"sgd:momentum=0.9", "adam"}) {
    Job job = small_update_job(optimizer);
    job.epochs = 20;
    EXPECT_GT(train_on(2, job).metric.value, dense_accuracy(job) - 0.03) << optimizer;
  }
}

TEST(RoundsOfUpdates, KeepTheirBudget) {
  Job job = small_update_job();
  job.model =
      "mlp:hidden=1024";  // 70,660 weights, 1,028 of them biases, which are sent whole
  job.bucket_mb = 25;
  job.steps =
      20;  // an epoch: ends of epochs close rounds early, and such runs are longer
  for (const double budget : {1.0 / 4, 1.0 / 16, 1.0 / 64}) {
    job.budget = budget;
    const Outcome outcome = train_on(2, job);
    EXPECT_LT(outcome.sent_bytes_per_step, budget * outcome.dense_bytes_per_step)
        << budget;
  }
}

TEST(RoundsOfUpdates, MultiplyAdamsStepsByTheRootOfTheRanks) {
  Job job = small_update_job("adam");
  job.steps = 1;  // one local step, exchanged whole: the ranks' mean move
  job.density = 1;
  job.local_steps = 2;
  job.weight_decay = 0;
  Job twice = job;
  twice.exchange = "gradients";
  twice.outer = "sgd";
  twice.outer_lr = 1;
  twice.lr = 2 * job.lr;  // the root of 4
  EXPECT_EQ(train_on(4, job).weights_hash, train_on(4, twice).weights_hash);
}

TEST(RoundsOfUpdates, ResumeToTheSameBits) {
  for (const std::string& optimizer : kOptimizers) {
    Job job = small_update_job(optimizer);
    job.clip = 1;
    expect_resumes(2, job, 16);
    job.settle = std::to_string(8);
    expect_resumes(2, job, 16);
  }
}

TEST(RoundsOfUpdates, GoOnWithOtherNumbersOfWorkers) {
  Job job = small_update_job("adam");
  job.epochs = 10;
  for (const int ranks : {1, 3, 4})
    EXPECT_GT(accuracy_after_resize(job, 8, ranks), dense_accuracy(job) - 0.1) << ranks;
}

TEST(RoundsOfUpdates, AverageAdamsSquaresAndResumeAcrossThat) {
  Job job = small_update_job("adam");
  job.local_steps = 2;
  job.epochs = 7;   // 140 steps, 70 rounds
  Job dense = job;  // whose exchanges take the same bytes behind any optimizer
  dense.scheme = "dense";
  dense.exchange = "updates";
  dense.density = 1;
  Job without = dense;
  without.optimizer = "sgd";
  const double more =
      train_on(2, dense).sent_bytes_per_step - train_on(2, without).sent_bytes_per_step;
  EXPECT_GT(140 * more, 2 * 2000) << "bytes of 2,000 squares and more in bf16";
  expect_resumes(2, job, 80);
}

TEST(RoundsOfUpdates, SettleAtTheFirstEndOfARoundThatIsDue) {
  Job job = small_update_job();
  job.settle = "end";
  const std::uint64_t once = train_on(2, job).settle_bytes;
  job.settle = std::to_string(5);  // after steps 8, 12, 16 and 20 of each epoch
  EXPECT_EQ(train_on(2, job).settle_bytes, 8 * once);
}

TEST(RoundsOfUpdates, SettleWhereToldTo) {
  Job job = small_update_job();
  const Outcome not_settled = train_on(2, job);
  EXPECT_EQ(not_settled.settle_bytes, 0U);
  job.settle = "end";
  const Outcome settled = train_on(2, job);
  EXPECT_GT(settled.settle_bytes, 0U);
  EXPECT_NE(settled.weights_hash, not_settled.weights_hash);
}

}  // namespace
}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// Runs that exchange the change of some local steps: what knot does unless told otherwise.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train/runs.h"

namespace topknot::train {
namespace {

using testing::expect_resumes;
using testing::Folder;
using testing::train_on;

/// 20 steps an epoch on two ranks. Nothing of the exchange is set.
Job small_job(const std::string& optimizer = "sgd:momentum=0.9") {
  Job job;
  job.name = "rounds";
  job.model = "mlp:hidden=32";
  job.data = "generated:classes=4,size=320,seed=3,side=8,noise=0";
  job.epochs = 2;
  job.batch = 8;
  job.lr = optimizer.starts_with("sgd") ? 0.02 : 0.002;
  job.optimizer = optimizer;
  job.bucket_mb = 0.01;
  return job;
}

const std::vector<std::string> kOptimizers = {
    "sgd", "sgd:momentum=0.9", "sgd:momentum=0.9,nesterov=1", "adam", "adamw"};

double dense_accuracy(Job job) {
  job.scheme = "dense";
  return train_on(2, job).metric.value;
}

TEST(RoundsOfUpdates, AreTheDefault) {
  Job spelt = small_job("adam");
  spelt.exchange = "updates";
  spelt.local_steps = 4;
  spelt.density = 0.25;
  spelt.collective = "knot:values=i2";
  EXPECT_EQ(train_on(2, small_job("adam")).weights_hash, train_on(2, spelt).weights_hash);
}

TEST(RoundsOfUpdates, LeaveAllRanksWithTheSameWeights) {
  for (const int ranks : {1, 2, 3, 5})
    for (const std::string& optimizer : kOptimizers) {
      Job job = small_job(optimizer);
      job.weight_decay = 0.01;
      job.clip = 1;
      EXPECT_EQ(train_on(ranks, job).epochs, 2U) << optimizer;  // which compares
    }
}

TEST(RoundsOfUpdates, LearnWhatTheDenseRunLearns) {
  for (const std::string optimizer : {"sgd:momentum=0.9", "adam"}) {
    Job job = small_job(optimizer);
    job.epochs = 20;
    EXPECT_GT(train_on(2, job).metric.value, dense_accuracy(job) - 0.03) << optimizer;
  }
}

TEST(RoundsOfUpdates, KeepTheirBudget) {
  Job job = small_job();
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
  Job job = small_job("adam");
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
    Job job = small_job(optimizer);
    job.clip = 1;
    expect_resumes(2, job, 16);
    job.settle = std::to_string(8);
    expect_resumes(2, job, 16);
  }
}

TEST(RoundsOfUpdates, GoOnWithOtherNumbersOfWorkers) {
  for (const int ranks : {1, 3, 4}) {
    Job job = small_job("adam");
    job.epochs = 10;
    const Folder folder;
    Job first = job;
    first.steps = 8;
    train_on(2, first, {.checkpoints = folder.path()});
    const Outcome resumed =
        train_on(ranks, job, {.checkpoints = folder.path(), .resume = true});
    EXPECT_GT(resumed.metric.value, dense_accuracy(job) - 0.1) << ranks;
  }
}

TEST(RoundsOfUpdates, AverageAdamsSquaresAndResumeAcrossThat) {
  Job job = small_job("adam");
  job.local_steps = 2;
  job.epochs = 7;  // 140 steps, 70 rounds
  Job without = job;
  without.optimizer = "sgd";
  const double more =
      train_on(2, job).sent_bytes_per_step - train_on(2, without).sent_bytes_per_step;
  EXPECT_GT(140 * more, 2 * 2000) << "bytes of 2,000 squares and more in bf16";
  expect_resumes(2, job, 80);
}

TEST(RoundsOfUpdates, SettleAtTheFirstEndOfARoundThatIsDue) {
  Job job = small_job();
  job.settle = "end";
  const std::uint64_t once = train_on(2, job).settle_bytes;
  job.settle = std::to_string(5);  // after steps 8, 12, 16 and 20 of each epoch
  EXPECT_EQ(train_on(2, job).settle_bytes, 8 * once);
}

TEST(RoundsOfUpdates, SettleWhereToldTo) {
  Job job = small_job();
  const Outcome not_settled = train_on(2, job);
  EXPECT_EQ(not_settled.settle_bytes, 0U);
  job.settle = "end";
  const Outcome settled = train_on(2, job);
  EXPECT_GT(settled.settle_bytes, 0U);
  EXPECT_NE(settled.weights_hash, not_settled.weights_hash);
}

}  // namespace
}  // namespace topknot::train

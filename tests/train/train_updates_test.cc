// SPDX-License-Identifier: Apache-2.0
//
// Runs that exchange each rank's own optimizer steps.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job/engine_options.h"
#include "topknot/error.h"
#include "train/update_jobs.h"

namespace topknot::train {
namespace {

using testing::accuracy_after_resize;
using testing::dense_accuracy;
using testing::expect_resumes;
using testing::Folder;
using testing::kOptimizers;
using testing::sentence_of;
using testing::train_on;

/// With an exchange on every step.
Job small_job(const std::string& optimizer = "sgd:momentum=0.9") {
  Job job = testing::small_update_job(optimizer);
  job.exchange = "updates";
  job.density = 0.05;
  return job;
}

TEST(ExchangeOfUpdates, IsTheOptimizerItselfOnOneRankThatSendsAll) {
  for (const std::string& optimizer : kOptimizers) {
    Job job = small_job(optimizer);
    job.density = 1;
    job.weight_decay = 0.01;
    job.clip = 1;
    Job dense = job;
    dense.scheme = "dense";
    dense.exchange = "gradients";
    EXPECT_EQ(train_on(1, job).weights_hash, train_on(1, dense).weights_hash)
        << optimizer;
  }
}

TEST(ExchangeOfUpdates, IsTheDenseOptimizerOnManyRanksThatSendAll) {
  for (const std::string& optimizer : kOptimizers) {
    Job job = small_job(optimizer);
    job.density = 1;
    Job dense = job;
    dense.scheme = "dense";
    dense.exchange = "gradients";
    EXPECT_EQ(train_on(3, job).weights_hash, train_on(3, dense).weights_hash)
        << optimizer;
  }
}

TEST(ExchangeOfUpdates, ResumesToTheSameBits) {
  for (const std::string& optimizer : kOptimizers) {
    Job job = small_job(optimizer);
    job.clip = 1;
    expect_resumes(2, job, 17);
    job.settle = std::to_string(7);
    expect_resumes(2, job, 14);
  }
}

TEST(ExchangeOfUpdates, GoesOnWithOtherNumbersOfWorkers) {
  Job job = small_job("adam");
  job.epochs = 10;
  for (const int ranks : {1, 3, 4})
    EXPECT_GT(accuracy_after_resize(job, 10, ranks), dense_accuracy(job) - 0.1) << ranks;
}

TEST(ExchangeOfUpdates, SettlesAtTheEndAndEverySoOftenWhereToldTo) {
  Job job = small_job();
  job.settle = "end";
  const Outcome settled = train_on(2, job);
  EXPECT_GT(settled.settle_bytes, 0U);
  job.settle = "never";
  const Outcome not_settled = train_on(2, job);
  EXPECT_EQ(not_settled.settle_bytes, 0U);
  EXPECT_NE(settled.weights_hash, not_settled.weights_hash);
  EXPECT_GT(settled.sent_bytes_per_step, not_settled.sent_bytes_per_step);
  job.settle = "10";
  EXPECT_EQ(train_on(2, job).settle_bytes, 4 * settled.settle_bytes);
}

TEST(ExchangeOfUpdates, LearnsWhatTheDenseRunLearns) {
  for (const std::string optimizer : {"sgd:momentum=0.9", "adam"}) {
    Job job = small_job(optimizer);
    job.epochs = 20;
    EXPECT_GT(train_on(2, job).metric.value, dense_accuracy(job) - 0.05) << optimizer;
  }
}

TEST(ExchangeOfUpdates, IsRefusedWhereItCannotBe) {
  Job job = small_job();
  const auto why = [](const Job& bad) {
    return sentence_of<ConfigError>([&] { check(bad); });
  };
  job.exchange = "moves";
  EXPECT_EQ(why(job),
            "The key exchange cannot be moves; it is auto, updates or gradients.");
  job = small_job();
  job.settle = "0";
  EXPECT_EQ(why(job),
            "The key settle cannot be 0; it is end, never, or a number of steps from 1.");
  job = small_job();
  job.memory = "residual";
  EXPECT_EQ(why(job),
            "The memory residual makes no updates of gradients: set "
            "exchange=gradients.");
  job.exchange = "gradients";
  job.memory = "adam";
  EXPECT_EQ(why(job),
            "The memory adam makes updates of gradients: set exchange=updates.");
}

TEST(ExchangeOfUpdates, RefusesAResidualInTheUnitsOfGradients) {
  const Folder folder;
  Job first = small_job();
  first.exchange = "gradients";
  first.steps = 10;
  train_on(2, first, {.checkpoints = folder.path()});
  EXPECT_EQ(sentence_of<ConfigError>([&] {
              train_on(2, small_job(), {.checkpoints = folder.path(), .resume = true});
            }),
            "The checkpoint was made with exchange=gradients, and its residuals are in "
            "other units: resume with the same.");
}

}  // namespace
}  // namespace topknot::train

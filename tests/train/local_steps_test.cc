// SPDX-License-Identifier: Apache-2.0
//
// Rounds of local steps: alone as an object, and in whole runs of a second or less.
#include "train/local_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "job/engine_options.h"
#include "topknot/error.h"
#include "train/runs.h"

namespace topknot::train {
namespace {

using testing::expect_resumes;
using testing::Folder;
using testing::train_on;
using topknot::testing::run;

/// 20 steps an epoch on two ranks, 40 on one.
Job small_job() {
  Job job;
  job.name = "local";
  job.model = "mlp:hidden=32";
  job.data = "generated:classes=4,size=320,seed=3,side=8,noise=0";
  job.epochs = 3;
  job.batch = 8;
  job.lr = 0.02;
  job.scheme = "dense";
  job.bucket_mb = 0.01;
  job.local_steps = 4;
  return job;
}

/// The averaging of weights.
Job plain_outer(Job job) {
  job.outer = "sgd";
  job.outer_lr = 1;
  return job;
}

Job sparse_loco(Job job) {
  job.scheme = "topka";
  job.memory = "residual:decay=0.95";
  job.compressor = "chunked";
  job.collective = "topka:values=i2";
  job.density = 0.05;
  return plain_outer(job);
}

/// What rank 0 hears, and asks for.
class Witness final : public Observer {
 public:
  explicit Witness(std::uint64_t leave_after = 0) : leave_after_(leave_after) {}
  void on_step(const StepRecord& record) override { steps.push_back(record); }
  void on_checkpoint(std::uint64_t step, double) override { kept.push_back(step); }
  bool asked_to_stop() override {
    return leave_after_ > 0 && steps.size() >= leave_after_;
  }

  std::vector<StepRecord> steps;
  std::vector<std::uint64_t> kept;

 private:
  const std::uint64_t leave_after_;
};

Outcome watch(int ranks, const Job& job, Witness& witness,
              const TrainOptions& options = {}) {
  Outcome outcome;
  run(ranks, [&](Transport& link) {
    Observer silent;
    const Outcome one = train(
        link, job, options, link.rank() == 0 ? static_cast<Observer&>(witness) : silent);
    if (link.rank() == 0) outcome = one;
  });
  return outcome;
}

/// The steps, counted from 1, whose end was an exchange.
std::vector<std::uint64_t> exchanges(const Witness& witness) {
  std::vector<std::uint64_t> all;
  for (const StepRecord& record : witness.steps)
    if (record.sent_bytes > 0) all.push_back(record.step + 1);
  return all;
}

TEST(LocalSteps, AreOffWhenThereIsOne) {
  Job job = small_job();
  job.local_steps = 1;
  Job other = job;
  other.outer = "adam";
  other.outer_lr = 123;
  EXPECT_EQ(train_on(2, job).weights_hash, train_on(2, other).weights_hash);
  other.local_steps = 2;
  EXPECT_NE(train_on(2, job).weights_hash, train_on(2, other).weights_hash);
}

TEST(LocalSteps, OfOneRankAreItsSteps) {
  Job job = plain_outer(small_job());
  job.clip = 1;
  job.weight_decay = 0.001;
  job.epochs = 1;
  Job plain = job;
  plain.local_steps = 1;
  Witness rounds;
  Witness steps;
  watch(1, job, rounds);
  watch(1, plain, steps);
  ASSERT_EQ(rounds.steps.size(), 40U);
  ASSERT_EQ(steps.steps.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(rounds.steps[i].step, i);
    EXPECT_EQ(rounds.steps[i].lr, steps.steps[i].lr);
    EXPECT_EQ(rounds.steps[i].samples, steps.steps[i].samples);
    EXPECT_NEAR(rounds.steps[i].loss, steps.steps[i].loss, 1e-4) << i;
  }
}

TEST(LocalSteps, LeaveAllRanksWithTheSameWeights) {
  Job knot = small_job();
  knot.scheme = "knot";
  knot.density = 0.05;
  for (const int ranks : {2, 3, 4})
    for (const Job& job : {small_job(), knot, sparse_loco(small_job())})
      EXPECT_EQ(train_on(ranks, job).epochs, 3U) << job.scheme;  // which compares
}

TEST(LocalSteps, LearnByEveryKindOfScheme) {
  Job diloco = small_job();
  diloco.lr = 0.005;  // the outer momentum takes every move seven times as far
  Job knot = plain_outer(small_job());
  knot.scheme = "knot";
  knot.density = 0.05;
  for (Job job : {diloco, knot, sparse_loco(small_job())}) {
    job.epochs = 8;
    EXPECT_GT(train_on(2, job).metric.value, 0.6) << job.scheme << ", chance is 0.25";
  }
}

TEST(LocalSteps, SendOnceARound) {
  Job job = small_job();
  job.epochs = 1;
  Witness rounds;
  const Outcome seldom = watch(2, job, rounds);
  EXPECT_EQ(exchanges(rounds), (std::vector<std::uint64_t>{4, 8, 12, 16, 20}));
  job.local_steps = 1;
  const Outcome always = train_on(2, job);
  EXPECT_NEAR(always.sent_bytes_per_step / seldom.sent_bytes_per_step, 4, 1e-6);
}

TEST(LocalSteps, AreExchangedWhereAnEpochOrTheRunEnds) {
  Job job = small_job();
  job.local_steps = 8;
  job.steps = 45;
  Witness witness;
  watch(2, job, witness);
  EXPECT_EQ(exchanges(witness), (std::vector<std::uint64_t>{8, 16, 20, 28, 36, 40, 45}));
}

TEST(LocalSteps, AddUpPassesAsIfTheyWereOneBatch) {
  Job whole = plain_outer(small_job());
  whole.steps = 12;
  Job parts = whole;
  whole.batch = 16;
  parts.accumulate = 2;
  Witness one;
  Witness other;
  watch(1, whole, one);
  watch(1, parts, other);
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(one.steps.at(i).loss, other.steps.at(i).loss, 1e-3) << i;
}

TEST(LocalSteps, LeaveTheirMomentumAndGiveTheOutersToTheMemoryThatHasIt) {
  Job job = small_job();
  job.scheme = "dgc";
  job.density = 0.05;
  job.epochs = 1;
  Job spelt = job;
  spelt.outer = "sgd";
  spelt.memory = "dgc:momentum=0.9,nesterov=1";
  EXPECT_EQ(train_on(2, job).weights_hash, train_on(2, spelt).weights_hash);
  spelt.optimizer = "sgd";
  EXPECT_NE(train_on(2, job).weights_hash, train_on(2, spelt).weights_hash);
}

// ---- checkpoints

TEST(LocalSteps, ResumeToTheSameBits) {
  Job job = small_job();
  job.optimizer = "adam";  // whose state is each rank's own
  job.lr = 0.003;
  job.steps = 33;
  expect_resumes(3, job, 8);
  job.name = "local-sparse";
  expect_resumes(2, sparse_loco(job), 8);
}

TEST(LocalSteps, ResumeToTheSameBitsWithDropoutAndACarriedState) {
  Job job = small_job();
  job.name = "local-language";
  job.model = "lstm:layers=1,width=16,dropout=0.2,bptt=10";
  job.data = "generated:words=128,size=6000,seed=2";
  job.batch = 4;
  job.optimizer = "adam";
  job.lr = 0.01;
  job.clip = 1;
  job.steps = 20;
  expect_resumes(2, sparse_loco(job), 8);
}

TEST(LocalSteps, AreLeftAtTheEndOfARound) {
  Job job = small_job();
  const Folder folder;
  Witness leaver(6);
  const Outcome left = watch(2, job, leaver, {.checkpoints = folder.path()});
  EXPECT_TRUE(left.stopped_early);
  EXPECT_EQ(left.steps, 12U);  // after the eighth it was asked for
  const Outcome resumed =
      train_on(2, job, {.checkpoints = folder.path(), .resume = true});
  EXPECT_EQ(resumed.weights_hash, train_on(2, job).weights_hash);
}

TEST(LocalSteps, AreKeptAtTheEndOfTheRoundInWhichACheckpointIsDue) {
  Job job = small_job();
  job.epochs = 1;
  job.checkpoint_every = 5;
  const Folder folder;
  Witness witness;
  watch(2, job, witness, {.checkpoints = folder.path()});
  EXPECT_EQ(witness.kept, (std::vector<std::uint64_t>{8, 12, 16, 20}));
}

TEST(LocalSteps, GoOnWithOtherNumbersOfWorkers) {
  Job job = sparse_loco(small_job());
  job.optimizer = "adam";
  job.steps = 8;
  const Folder folder;
  TrainOptions options{.checkpoints = folder.path()};
  train_on(3, job, options);
  options.resume = true;
  const auto until = [&](std::int64_t steps, int ranks, std::int64_t local) {
    job.steps = steps;
    job.local_steps = local;
    return train_on(ranks, job, options).steps;
  };
  EXPECT_EQ(until(16, 2, 4), 16U);
  EXPECT_EQ(until(24, 4, 2), 24U);
}

TEST(LocalSteps, RefuseAResidualInTheUnitsOfGradients) {
  Job job = sparse_loco(small_job());
  for (const std::int64_t local : {1, 4}) {
    const Folder folder;
    TrainOptions options{.checkpoints = folder.path()};
    job.steps = 4;
    job.local_steps = local;
    train_on(2, job, options);
    options.resume = true;
    job.local_steps = 5 - local;
    EXPECT_NE(testing::sentence_of<ConfigError>([&] {
                train_on(2, job, options);
              }).find("other units"),
              std::string::npos);
  }
}

// ---- what is not finite

TEST(LocalSteps, PassOverAGradientThatIsNotFinite) {
  Job job = plain_outer(small_job());
  job.lr = 1e37;  // after one step of which nothing is finite any more but the weights
  job.nonfinite = "skip";
  job.skip_limit = 1;
  job.steps = 1;
  const Outcome once = train_on(1, job);
  job.steps = 4;
  Witness witness;
  EXPECT_EQ(watch(1, job, witness).weights_hash, once.weights_hash);
  EXPECT_TRUE(witness.steps.at(0).finite);
  for (const std::size_t step : {1, 2, 3}) EXPECT_FALSE(witness.steps.at(step).finite);
}

/// One rank's model of six weights and its round.
struct Six {
  explicit Six(Transport& link)
      : model(torch::nn::LinearOptions(3, 2).bias(false)),
        replica(*model, link, engine_options(job, 0)),
        local(job, replica, link) {
    std::ranges::fill(replica.weight(0), 1.0F);
  }
  static Job six_job() {
    Job job = small_job();
    job.optimizer = "sgd:momentum=0.9";
    job.outer = "sgd:momentum=0.5";
    job.outer_lr = 0.5;
    std::vector<std::string> notices;
    return prepared(job, notices);
  }
  void begin() { local.begin(0, /*opens_round=*/true); }
  std::vector<float> weights() {
    return {replica.weight(0).begin(), replica.weight(0).end()};
  }

  const Job job = six_job();
  torch::nn::Linear model;
  Replica replica;
  LocalSteps local;
};

TEST(LocalSteps, MoveByTheMeanOfWhatTheRanksHaveComeTo) {
  run(2, [](Transport& link) {
    Six six(link);
    six.begin();
    six.replica.weight(0)[0] = link.rank() == 0 ? 0.0F : -3.0F;  // 1 and 4 down
    six.replica.weight(0)[5] = 2;                                // 1 up
    EXPECT_TRUE(six.local.exchange().finite);
    EXPECT_EQ(six.weights(), (std::vector<float>{-0.25F, 1, 1, 1, 1, 1.5F}));
    six.begin();  // nobody moves, but for the outer momentum
    const StepReport report = six.local.exchange();
    EXPECT_TRUE(report.finite);
    EXPECT_EQ(report.exposed_seconds, report.seconds);
    EXPECT_EQ(six.weights(), (std::vector<float>{-0.875F, 1, 1, 1, 1, 1.75F}));
  });
}

TEST(LocalSteps, GoBackToTheStartOnAllRanksWhenOneIsNotFinite) {
  run(2, [](Transport& link) {
    Six six(link);
    const std::vector<float> start = six.weights();
    six.begin();
    six.replica.weight(0)[0] = 3;
    if (link.rank() == 1) {
      constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
      six.replica.weight(0)[2] = kNan;
      six.local.optimizer().slot(0, 0)[2] = kNan;
    }
    EXPECT_FALSE(six.local.exchange().finite);
    EXPECT_EQ(six.weights(), start);
    EXPECT_EQ(six.local.optimizer().slot(0, 0), std::vector<float>(6));
    six.begin();
    six.replica.weight(0)[0] = 3;
    EXPECT_TRUE(six.local.exchange().finite);
    EXPECT_EQ(six.weights(), (std::vector<float>{2, 1, 1, 1, 1, 1}));
  });
}

}  // namespace
}  // namespace topknot::train

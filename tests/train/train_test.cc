// SPDX-License-Identifier: Apache-2.0
//
// Whole runs, small enough to take a second: what is the same bits as what.
#include "train/train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "refusal.h"
#include "store/checkpoint.h"
#include "store/files.h"
#include "topknot/catalog.h"
#include "topknot/error.h"
#include "train/runs.h"

namespace topknot::train {
namespace {

using testing::Folder;
using testing::train_on;
using topknot::testing::run;

Job small_job() {
  Job job;
  job.name = "small";
  job.model = "mlp:hidden=32";
  job.data = "generated:classes=4,size=320,seed=3,side=8";
  job.pad = 1;
  job.flip = true;
  job.epochs = 3;
  job.batch = 8;
  job.lr = 0.05;
  job.density = 0.05;
  job.bucket_mb = 0.01;
  return job;
}

TEST(Training, LearnsTheGeneratedImages) {
  Job job = small_job();
  job.data = "generated:classes=4,size=640,seed=3,side=8,noise=0";
  job.pad = 0;
  job.flip = false;
  job.epochs = 8;
  const Outcome outcome = train_on(2, job);
  EXPECT_GT(outcome.metric.value, 0.6) << "chance is 0.25";
  EXPECT_EQ(outcome.epochs, 8U);
  EXPECT_EQ(outcome.steps, 320U);
}

TEST(Training, IsRepeatable) {
  EXPECT_EQ(train_on(2, small_job()).weights_hash, train_on(2, small_job()).weights_hash);
  Job other = small_job();
  other.seed = 2;
  EXPECT_NE(train_on(2, small_job()).weights_hash, train_on(2, other).weights_hash);
}

/// Writes down the loss of every step.
class Losses final : public Observer {
 public:
  void on_step(const StepRecord& record) override { of_steps.push_back(record.loss); }

  std::vector<double> of_steps;
};

std::vector<double> losses(const Job& job) {
  Losses observed;
  run(1, [&](Transport& link) { train(link, job, {}, observed); });
  return observed.of_steps;
}

TEST(Training, AddsUpPassesAsIfTheyWereOneBatch) {
  Job whole = small_job();
  whole.scheme = "dense";
  whole.pad = 0;
  whole.flip = false;
  whole.steps = 6;
  Job parts = whole;
  Job less = whole;  // as if the passes before the last were forgotten
  whole.batch = 16;
  parts.accumulate = 2;
  const std::vector<double> expected = losses(whole);
  const std::vector<double> added = losses(parts);
  ASSERT_EQ(added.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(added[i], expected[i], 1e-4) << "step " << i;
  EXPECT_GT(std::abs(losses(less).back() - expected.back()), 1e-3);
}

class EveryScheme : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryScheme, ResumesToTheSameBits) {
  Job job = small_job();
  job.scheme = GetParam();
  job.schedule = "constant";
  job.steps = 13;
  testing::expect_resumes(2, job, 6);
}

/// What the ranks keep by coordinates, by name: its mean over the `ranks` that load it.
std::map<std::string, std::vector<double>> mean_residuals(const Folder& folder,
                                                          int ranks) {
  std::map<std::string, std::vector<double>> means;
  std::mutex mutex;
  run(ranks, [&](Transport& link) {
    store::CheckpointFolder checkpoints(store::disk(), folder.path().string());
    const store::Loaded loaded = checkpoints.load(link);
    const std::scoped_lock lock(mutex);
    for (const auto& [name, array] : loaded.own.arrays()) {
      if (!store::is_folded(loaded.own, name)) continue;
      const std::span<const float> values = loaded.own.values<float>(name);
      std::vector<double>& mean = means[name];
      mean.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        mean[i] += static_cast<double>(values[i]) / ranks;
    }
  });
  return means;
}

// The weights are those of before, to the bit, and the residuals have the mean of before:
// an update is a mean, so nothing is lost and nothing counts twice.
TEST_P(EveryScheme, GoesOnWithOtherNumbersOfWorkers) {
  Job job = small_job();
  job.scheme = GetParam();
  job.schedule = "constant";
  const Folder folder;
  Outcome last;
  int before = 3;
  for (const int ranks : {3, 2, 4}) {
    if (before != ranks) {
      const auto residuals = mean_residuals(folder, before);
      EXPECT_EQ(residuals.empty(), job.scheme == "dense");
      const auto now = mean_residuals(folder, ranks);
      EXPECT_EQ(now.size(), residuals.size());
      for (const auto& [name, mean] : residuals) {
        ASSERT_EQ(now.at(name).size(), mean.size()) << name;
        double largest = 0;  // of what was added up, about
        for (const double value : mean) largest = std::max(largest, std::abs(value));
        for (std::size_t i = 0; i < mean.size(); ++i)
          ASSERT_NEAR(now.at(name)[i], mean[i], 1e-6 * largest) << name << " " << i;
      }
      const Outcome same =
          train_on(ranks, job, {.checkpoints = folder.path(), .resume = true});
      EXPECT_EQ(same.steps, last.steps);
      EXPECT_EQ(same.weights_hash, last.weights_hash);
    }
    job.steps += 3;
    const bool resume = before != ranks;
    last = train_on(ranks, job, {.checkpoints = folder.path(), .resume = resume});
    EXPECT_EQ(last.steps, static_cast<std::uint64_t>(job.steps));
    before = ranks;
  }
}

std::vector<std::string> names_of_schemes() {
  std::vector<std::string> names;
  for (const Scheme& scheme : schemes()) names.emplace_back(scheme.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryScheme, ::testing::ValuesIn(names_of_schemes()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& letter : name)
                             if (letter == '-') letter = '_';
                           return name;
                         });

TEST(Training, WarmsUpAsItsSchemeDoesUnlessTheJobSaysOtherwise) {
  Job job = small_job();
  job.scheme = "oktopk";
  job.steps = 3;
  const auto own = train_on(2, job).weights_hash;
  job.schedule = "dense:steps=3";
  EXPECT_EQ(train_on(2, job).weights_hash, own);
  job.schedule = "constant";
  EXPECT_NE(train_on(2, job).weights_hash, own);
}

TEST(Training, WarmsUpByTheEpochsOfTheJob) {
  Job job = small_job();
  job.scheme = "dgc";
  job.optimizer = "sgd";
  job.steps = 0;
  job.epochs = 2;
  const Outcome own = train_on(2, job);
  job.schedule = "exponential:stages=4,from=0.25,period=" + std::to_string(own.steps / 2);
  EXPECT_EQ(train_on(2, job).weights_hash, own.weights_hash);
  job.schedule = "exponential:stages=4,from=0.25,period=1";
  EXPECT_NE(train_on(2, job).weights_hash, own.weights_hash);
}

TEST(Training, ClipsBeforeTheExchangeWithDgc) {
  Job job = small_job();
  job.scheme = "dgc";
  job.steps = 3;
  job.clip = 0.02;
  job.bucket_mb = 0;
  job.dense_vectors = false;  // one bucket, which is all of the gradient
  const auto clipped = train_on(4, job).weights_hash;
  Job spelt = job;
  spelt.clip = 0;
  spelt.optimizer = "sgd";
  spelt.memory = "dgc:momentum=0.9,clip=0.01";
  EXPECT_EQ(train_on(4, spelt).weights_hash, clipped);
  job.clip = 0;
  EXPECT_NE(train_on(4, job).weights_hash, clipped);
}

TEST(Training, MovesAllOfTheMomentumToTheMemoryThatHasIt) {
  Job job = small_job();
  job.scheme = "dgc";
  job.steps = 5;
  Job ahead = job;
  ahead.optimizer = "sgd:momentum=0.9,nesterov=1";
  EXPECT_NE(train_on(2, job).weights_hash, train_on(2, ahead).weights_hash);
  job.optimizer = "sgd";
  job.memory = "dgc:momentum=0.9,nesterov=1";
  EXPECT_EQ(train_on(2, job).weights_hash, train_on(2, ahead).weights_hash);
}

TEST(Training, RefusesACheckpointOfAnotherModel) {
  Job job = small_job();
  job.steps = 2;
  const Folder folder;
  train_on(1, job, {.checkpoints = folder.path()});
  job.model = "mlp:hidden=33";
  job.steps = 4;
  const std::string said = topknot::testing::refusal<ConfigError>(
      [&] { train_on(1, job, {.checkpoints = folder.path(), .resume = true}); });
  EXPECT_TRUE(said.starts_with("The checkpoint " + (folder.path() / "step-2").string() +
                               " is of the model "))
      << said;
}

TEST(Training, RefusesToGoOnFromNothing) {
  const Folder folder;
  EXPECT_REFUSAL(train_on(1, small_job(), {.checkpoints = folder.path(), .resume = true}),
                 NoCheckpointError,
                 "Rank 0: There is no usable checkpoint to resume from in " +
                     folder.path().string() + ": it has none.");
}

/// Wants to leave after some steps.
class Leaver final : public Observer {
 public:
  void on_step(const StepRecord&) override { ++steps_; }
  bool asked_to_stop() override { return steps_ >= 4; }

 private:
  int steps_ = 0;
};

TEST(Training, SavesAndLeavesWhenOneRankIsAsked) {
  Job job = small_job();
  const Folder folder;
  run(2, [&](Transport& link) {
    Leaver leaver;
    Observer stayer;
    const Outcome outcome =
        train(link, job, {.checkpoints = folder.path()},
              link.rank() == 1 ? static_cast<Observer&>(leaver) : stayer);
    EXPECT_TRUE(outcome.stopped_early);
    EXPECT_EQ(outcome.steps, 5U);
  });
  const Outcome resumed =
      train_on(2, job, {.checkpoints = folder.path(), .resume = true});
  EXPECT_EQ(resumed.weights_hash, train_on(2, job).weights_hash);
}

}  // namespace
}  // namespace topknot::train

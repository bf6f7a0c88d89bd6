// SPDX-License-Identifier: Apache-2.0
//
// Whole runs for tests of tasks.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "data/write_files.h"
#include "ranks.h"
#include "train/train.h"

namespace topknot::train {

/// The outcome, which all ranks must agree on.
inline Outcome train_on(int ranks, const Job& job, const TrainOptions& options = {}) {
  std::mutex mutex;
  std::vector<Outcome> outcomes;
  testing::run(ranks, [&](Transport& link) {
    Observer silent;
    const Outcome outcome = train(link, job, options, silent);
    const std::scoped_lock lock(mutex);
    outcomes.push_back(outcome);
  });
  for (const Outcome& one : outcomes) {
    EXPECT_EQ(one.weights_hash, outcomes[0].weights_hash);
    EXPECT_EQ(one.metric.value, outcomes[0].metric.value);
  }
  return outcomes.at(0);
}

/// `steps` in one go are the same bits as a stop after `first` of them.
inline void expect_resumes(int ranks, Job job, int steps, int first) {
  job.checkpoint_every = 1000;
  job.steps = steps;
  const Outcome straight = train_on(ranks, job);
  const data::TemporaryFolder folder;
  job.steps = first;
  train_on(ranks, job, {.checkpoints = folder.path()});
  job.steps = steps;
  const Outcome resumed =
      train_on(ranks, job, {.checkpoints = folder.path(), .resume = true});
  EXPECT_EQ(resumed.weights_hash, straight.weights_hash);
  EXPECT_EQ(resumed.metric.value, straight.metric.value);
  EXPECT_EQ(resumed.steps, static_cast<std::uint64_t>(steps));
}

}  // namespace topknot::train

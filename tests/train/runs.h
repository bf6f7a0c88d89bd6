// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of a job on threads, for the tests of trainer and tasks.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "data/write_files.h"
#include "ranks.h"
#include "train/train.h"

namespace topknot::train::testing {

using Folder = data::TemporaryFolder;

/// The outcome, which all ranks must agree on.
inline Outcome train_on(int ranks, const Job& job, const TrainOptions& options = {}) {
  std::mutex mutex;
  std::vector<Outcome> outcomes;
  topknot::testing::run(ranks, [&](Transport& link) {
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

/// Whether a run that is left after `half` steps and goes on ends in the bits of one that is
/// not.
inline void expect_resumes(int ranks, const Job& job, std::int64_t half) {
  const Outcome straight = train_on(ranks, job);
  const Folder folder;
  Job first = job;
  first.steps = half;
  first.checkpoint_every = 1000;
  train_on(ranks, first, {.checkpoints = folder.path()});
  const Outcome resumed =
      train_on(ranks, job, {.checkpoints = folder.path(), .resume = true});
  EXPECT_EQ(resumed.steps, straight.steps);
  EXPECT_EQ(resumed.weights_hash, straight.weights_hash);
  EXPECT_EQ(resumed.metric.value, straight.metric.value);
}

/// The sentence of the E that `run` throws.
template <typename E, typename Run>
std::string sentence_of(Run run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace topknot::train::testing

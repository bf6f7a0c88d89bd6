// SPDX-License-Identifier: Apache-2.0
//
// What is trained, as one rank sees it: a model, its loss on batches, and its score. The loop
// knows nothing else of models and data.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/job.h"
#include "train/train.h"

namespace topknot::train {

/// Where training stands: enough to go on from, whatever the number of ranks.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t sample =
      0;  ///< of the epoch's samples, all ranks together, so many are done
  std::uint64_t step = 0;  ///< in all
};

/// Who one rank is among the others.
struct Place {
  int rank = 0;
  int ranks = 1;
};

class Task {
 public:
  virtual ~Task() = default;

  /// All weights are the same on all ranks, by the job's seed alone.
  virtual torch::nn::Module& model() = 0;

  virtual std::uint64_t train_samples() const = 0;
  virtual std::uint64_t test_samples() const = 0;
  /// How many samples all ranks together take in one pass, and so how far `sample` advances.
  virtual std::uint64_t samples_per_pass() const = 0;

  /// This rank's loss on its part of the pass that starts at `at`: a scalar to go backward
  /// from. Every draw is a function of the job's seed, the rank and `at`.
  virtual torch::Tensor loss(const Position& at) = 0;

  /// Sums over this rank's share of the test set; those of all ranks are added up in rank
  /// order. The first is the number of samples, the second the sum of the losses.
  virtual std::vector<double> evaluate() = 0;
  virtual Metric metric(const std::vector<double>& sums) const = 0;
  /// For schedules that wait for the score to improve: lower is better.
  virtual double score(const std::vector<double>& sums) const {
    return sums[1] / sums[0];
  }
};

/// Images in classes, by cross entropy and accuracy. Throws ConfigError, DataError.
std::unique_ptr<Task> make_classification(const Job& job, const Place& place);

/// The task that the job's model and data make up.
std::unique_ptr<Task> make_task(const Job& job, const Place& place);

}  // namespace topknot::train

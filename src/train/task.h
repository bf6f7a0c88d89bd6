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

#include "job/job.h"
#include "train/train.h"

namespace topknot::train {

/// Where training stands: enough to go on from, whatever the number of ranks.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t sample =
      0;  ///< of the epoch's samples, all ranks together, so many are done
  std::uint64_t step = 0;  ///< in all
};

/// One fingerprint of two, in their order.
std::uint64_t joined(std::uint64_t first, std::uint64_t second);

/// Who one rank is among the others.
struct RankInfo {
  int rank = 0;
  int ranks = 1;
};

/// This rank's share of [0, size) for evaluation, every so-many-eth, `at_once` at a time.
template <typename Judge>
void share_out(const RankInfo& rank_info, std::uint64_t size, std::size_t at_once,
               Judge judge) {
  std::vector<std::uint64_t> samples;
  for (auto i = static_cast<std::uint64_t>(rank_info.rank); i < size;
       i += static_cast<std::uint64_t>(rank_info.ranks)) {
    samples.push_back(i);
    if (samples.size() < at_once) continue;
    judge(samples);
    samples.clear();
  }
  if (!samples.empty()) judge(samples);
}

class Task {
 public:
  virtual ~Task() = default;

  /// All weights are the same on all ranks, by the job's seed alone.
  virtual torch::nn::Module& model() = 0;

  virtual std::uint64_t train_samples() const = 0;
  virtual std::uint64_t test_samples() const = 0;
  /// Of the training and test halves: equal on ranks that have the same data.
  virtual std::uint64_t data_fingerprint() const = 0;
  /// How many samples all ranks together take in one pass, and so how far `sample` advances.
  virtual std::uint64_t samples_per_pass() const = 0;

  /// This rank's loss on its part of the pass that starts at `at`: a scalar to go backward
  /// from. Every draw is a function of the job's seed, the rank and `at`.
  virtual torch::Tensor loss(const Position& at) = 0;

  /// Sums over this rank's share of the test set; those of all ranks are added up in rank
  /// order. The first is the number of samples, the second the sum of the losses.
  virtual std::vector<double> evaluate() = 0;
  virtual Metric metric(const std::vector<double>& sums) const = 0;
  /// Further metrics, only to be shown.
  virtual std::vector<Metric> others(const std::vector<double>&) const { return {}; }
  /// What one pass leaves for the next, such as a recurrent state: f32, each rank's own, kept
  /// in checkpoints and lost when the number of ranks changes. The tensors stay where they are.
  virtual std::vector<std::pair<std::string, torch::Tensor>> carried() { return {}; }

  /// For schedules that wait for the score to improve: lower is better.
  virtual double score(const std::vector<double>& sums) const {
    return sums[1] / sums[0];
  }
};

/// The task that the job's model belongs to. Throws ConfigError, DataError.
std::unique_ptr<Task> make_task(const Job& job, const RankInfo& rank_info);

/// The factories, each defined in its task's own file.
namespace task {
#define TASK(name, summary) \
  std::unique_ptr<Task> name(const Job& job, const RankInfo& rank_info);
#include "job/models.def"
}  // namespace task

// ---- draws

/// What the job's seed is used for: each purpose has a stream of its own.
enum class Draw : std::uint64_t {
  weights = 1,
  shuffle = 2,
  augmentation = 3,
  dropout = 4
};
std::uint64_t stream(const Job& job, Draw purpose, std::uint64_t epoch = 0);

/// A generator for torch's draws (dropout) in the pass at `at`: libtorch's own is one for the
/// whole process, which ranks that are threads would share.
at::Generator generator(const Job& job, const RankInfo& rank_info, const Position& at);

/// Zeroes a share of x and scales up the rest.
torch::Tensor dropout(const torch::Tensor& x, double share, at::Generator& draws);

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// A task is a model with its data: the loss on a batch, and the score on the test set. The loop
// knows models and data through this interface alone.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "job/job.h"
#include "train/stopwatch.h"
#include "train/train.h"

namespace topknot::train {

/// The position in a run. It is enough to resume from, with any number of ranks.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t sample = 0;  ///< samples of the epoch that all ranks together have taken
  std::uint64_t step = 0;    ///< steps taken since the start of training
};

/// A fingerprint of two, which depends on their order.
std::uint64_t joined(std::uint64_t first, std::uint64_t second);

/// This rank and the number of all.
struct RankInfo {
  int rank = 0;
  int ranks = 1;
};

/// Is told how many samples of how many have been evaluated, by all ranks if they go alike.
using OnEvaluated = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Calls `judge` with this rank's share of [0, size), strided by rank count: at most `at_once`
/// samples at a time, and `told` after each time.
template <typename Judge>
void share_out(const RankInfo& rank_info, std::uint64_t size, std::size_t at_once,
               const OnEvaluated& told, Judge judge) {
  std::vector<std::uint64_t> samples;
  for (auto i = static_cast<std::uint64_t>(rank_info.rank); i < size;
       i += static_cast<std::uint64_t>(rank_info.ranks)) {
    samples.push_back(i);
    if (samples.size() < at_once) continue;
    judge(samples);
    samples.clear();
    told(i + 1, size);
  }
  if (!samples.empty()) judge(samples);
}

/// How many of the `size` samples of a test set the job evaluates.
inline std::uint64_t evaluated_samples(const Job& job, std::uint64_t size) {
  const auto most = static_cast<std::uint64_t>(job.evaluate_samples);
  return most == 0 ? size : std::min(most, size);
}

class Task {
 public:
  virtual ~Task() = default;

  /// The initial weights depend on the job's seed alone, so they are equal on all ranks.
  virtual torch::nn::Module& model() = 0;

  virtual std::uint64_t train_samples() const = 0;
  /// Those that the job evaluates.
  virtual std::uint64_t test_samples() const = 0;
  /// A hash of the training and test data: equal on ranks that have the same data.
  virtual std::uint64_t data_fingerprint() const = 0;
  /// Samples that all ranks together take in one pass: what Position::sample advances by.
  virtual std::uint64_t samples_per_pass() const = 0;

  /// This rank's loss in the pass that starts at `at`, as a scalar for the backward pass. Every
  /// random draw is a function of the job's seed, the rank and `at`.
  virtual torch::Tensor loss(const Position& at) = 0;
  /// How much of the last loss() was making the batch, in seconds.
  double data_seconds() const noexcept { return data_seconds_; }

  /// Sums over this rank's share of the test set; the loop adds up those of all ranks in rank
  /// order. The first is the number of samples, the second the sum of their losses.
  virtual std::vector<double> evaluate() = 0;
  /// Hears of an evaluation while it runs.
  OnEvaluated on_evaluated = [](std::uint64_t, std::uint64_t) {};

  virtual Metric metric(const std::vector<double>& sums) const = 0;
  /// Further metrics, which are only shown.
  virtual std::vector<Metric> others(const std::vector<double>&) const { return {}; }
  /// State that one pass leaves for the next, such as that of an LSTM: f32, each rank's own. It is
  /// in checkpoints, and lost when the number of ranks changes. The tensors stay in place.
  virtual std::vector<std::pair<std::string, torch::Tensor>> carried() { return {}; }

  /// For the plateau schedule of the learning rate: lower is better.
  virtual double score(const std::vector<double>& sums) const {
    return sums[1] / sums[0];
  }

 protected:
  /// loss() calls it when its batch is there, with a watch that it started first.
  void batch_is_made(const Stopwatch& watch) { data_seconds_ = watch.seconds(); }

 private:
  double data_seconds_ = 0;
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

/// The uses of the job's seed. Each has a random stream of its own.
enum class Draw : std::uint64_t {
  weights = 1,
  shuffle = 2,
  augmentation = 3,
  dropout = 4
};
std::uint64_t stream(const Job& job, Draw purpose, std::uint64_t epoch = 0);

/// A generator for torch's draws (dropout) in the pass at `at`. libtorch's default generator is
/// one for the whole process, so ranks that are threads would share it.
at::Generator generator(const Job& job, const RankInfo& rank_info, const Position& at);

/// Sets a random share of x to zero and scales up the rest.
torch::Tensor dropout(const torch::Tensor& x, double share, at::Generator& draws);

}  // namespace topknot::train

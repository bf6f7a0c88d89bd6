// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/recipe.h"
#include "engine/state.h"
#include "topknot/trace.h"
#include "topknot/transports.h"

namespace topknot::engine {

/// One rank's side of one bucket: its residual, its compressor, its collective and the
/// channel it alone uses. Buckets with the same channel id meet over the ranks.
class Bucket {
 public:
  /// `memory` is used instead of the recipe's, unless it is null.
  Bucket(const Layout& layout, const Recipe& recipe, Transport& link, int channel,
         std::shared_ptr<Memory> memory = nullptr);
  /// Gives up the messages that a step which ended by an exception has left under way: the
  /// memory they point into goes with the collective.
  ~Bucket();
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  /// Reduces `grad` over all ranks; `sum` gets the mean of what was agreed on. `sum` is
  /// the memory of `grad`, or another that the caller leaves alone between steps and that
  /// was zero before the first: then only the coordinates that change are written. `grad`
  /// is used up; it is empty where the memory is elsewhere, and then `sum` is another. Where the
  /// trace says that the step was not finite, `sum` is not to be used
  /// either, and the residual is as before, bit for bit.
  /// `density` is what `k` was rounded down from; 0: not known.
  StepTrace step(std::span<float> grad, std::size_t k, std::span<float> sum,
                 double learning_rate = 1, double density = 0);

  /// The coordinates at which the last step settled this rank's residual, each once; empty
  /// where it settled all of it, or was not finite. Valid until the next step() or
  /// average_residuals().
  std::span<const std::uint32_t> settled() const noexcept { return settled_; }

  std::size_t size() const { return layout_.size(); }
  /// The coordinates of the last step's mean, where that was sparse, and a residual is kept.
  std::span<const std::uint32_t> mean_index() const noexcept { return last_; }
  std::span<const float> mean() const noexcept { return last_mean_; }

  /// The last step was finite here but is not applied, on any rank. The memory becomes what
  /// it was before, and the agreed mean joins the residual again: each of P ranks takes a
  /// P-th of the sum, so that nothing is lost. O(k) where the sum was sparse. Where there is
  /// no residual the mean is dropped.
  void undo();

  /// Replaces `x` with its mean over all ranks, by a dense sum. No memory takes part.
  StepTrace average(std::span<float> x);

  /// `mean`, as long as the bucket, gets the mean of all ranks' residuals, by one dense sum;
  /// zeros where nothing can be left in a residual. The residual stays as it is: whoever
  /// applies the mean calls clear_residual() then. Where the trace says that the sum was not
  /// finite, `mean` is not to be used.
  StepTrace average_residuals(std::span<float> mean);
  void clear_residual();

  /// What step() and average_residuals() give.
  Units units() const noexcept { return memory_ ? memory_->units() : Units::gradients; }

  /// What the bucket keeps from step to step, out of it and into it.
  void save(State& state);
  void load(const State& state);

  /// From now on traces have spans and thresholds.
  void keep_details() noexcept { traffic_->keeps_spans = true; }

  /// What this rank has sent so far.
  const Traffic& traffic() const noexcept { return *traffic_; }

  /// The bytes kept for its coordinates from step to step.
  std::uint64_t memory_bytes() const { return memory_ ? memory_->bytes() : 0; }

  /// This rank's residual; empty where there is none.
  std::span<const float> residual() const {
    return memory_ ? memory_->residual() : std::span<float>();
  }

 private:
  class TimedCompressor;

  template <typename Exchange>
  StepTrace traced(std::size_t k, Exchange exchange);
  Reduced step_dense(std::span<float> grad, std::span<float> sum, double learning_rate);
  Reduced step_sparse(std::span<float> grad, std::size_t k, std::span<float> sum,
                      double learning_rate);
  Reduced reduce(std::span<float> grad, std::size_t k, std::span<float> sum);
  Collective& dense();
  void clear_last(std::span<float> sum);
  void divide_by_ranks(const Reduced& reduced, std::span<float> sum) const;
  void average_and_keep(const Reduced& reduced, std::span<float> sum);

  const Layout layout_;
  std::shared_ptr<Traffic> traffic_;
  std::unique_ptr<Transport> channel_;
  std::unique_ptr<TimedCompressor> compressor_;
  std::unique_ptr<Collective> collective_;
  std::shared_ptr<Memory> memory_;   // none where it has nothing to do
  std::vector<std::uint32_t> last_;  // the coordinates that the last step wrote into sum
  std::vector<float> last_mean_;     // what it wrote there, for undo()
  std::span<const std::uint32_t>
      settled_;            // of the last step, in the collective's memory
  bool reducing_ = false;  // a reduce has begun and has not returned
  std::uint64_t step_ = 0;
  // Steps that did not settle everything: until the first, the ranks' memories are equal.
  std::uint64_t sparse_steps_ = 0;
  std::unique_ptr<Collective> dense_;  // of dense(), once it was asked for
};

}  // namespace topknot::engine

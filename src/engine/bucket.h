// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/state.h"
#include "topknot/catalog.h"
#include "topknot/trace.h"
#include "topknot/transports.h"

namespace topknot::engine {

/// The parts of a scheme, each with its parameters: what a bucket is reduced with.
struct Recipe {
  Spec memory;
  Spec compressor;
  Spec collective;
  Spec schedule = {"constant", {}};  ///< of the density; the bucket's owner follows it

  /// The parts that the catalog's line for `scheme` names.
  static Recipe of(std::string_view scheme);

  /// The same for what is sent whole. Its memory is at work there too where it does more
  /// than owe, as dgc's has the momentum; but not where it makes updates: an optimizer
  /// behind the exchange of whole gradients is the dense optimizer itself.
  Recipe whole() const;

  /// The same where the gradient of all `coordinates` is to be no longer than `clip`. It is
  /// clipped where the memory does so, on each of `ranks` before it joins what is owed: at
  /// clip / sqrt(ranks), of which a bucket of `size` coordinates gets sqrt(size /
  /// coordinates), so that the whole keeps the bound. 0 is no clipping. Throws ConfigError
  /// for a memory that does not clip.
  Recipe clipped(double clip, int ranks, std::uint64_t size,
                 std::uint64_t coordinates) const;
};

/// Whether a memory clips the gradient itself, before it joins what is owed.
bool clips(const Spec& memory);

/// One rank's side of one bucket: its residual, its compressor, its collective and the
/// channel it alone uses. Buckets with the same channel id meet over the ranks.
class Bucket {
 public:
  Bucket(const Layout& layout, const Recipe& recipe, Transport& link, int channel);
  /// Gives up the messages that a step which ended by an exception has left under way: the
  /// memory they point into goes with the collective.
  ~Bucket();
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  /// Reduces `grad` over all ranks; `sum` gets the mean of what was agreed on. `sum` is
  /// the memory of `grad`, or another that the caller leaves alone between steps and that
  /// was zero before the first: then only the coordinates that change are written. `grad`
  /// is used up. Where the trace says that the step was not finite, `sum` is not to be used
  /// either, and the residual is as before, bit for bit.
  /// `density` is what `k` was rounded down from; 0: not known.
  StepTrace step(std::span<float> grad, std::size_t k, std::span<float> sum,
                 double learning_rate = 1, double density = 0);

  /// The coordinates at which the last step settled this rank's residual, each once; empty
  /// where it settled all of it, or was not finite. Valid until the next step() or
  /// average_residuals().
  std::span<const std::uint32_t> settled() const noexcept { return settled_; }

  /// The last step was finite here but is not to be applied: what it agreed on is owed
  /// again, O(k) where that was sparse. `mean` is the whole of it. Where nothing can be owed
  /// it is dropped.
  void undo(std::span<const float> mean);

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

  /// What this rank has sent so far.
  const Traffic& traffic() const noexcept { return *traffic_; }

  /// The bytes kept for its coordinates from step to step.
  std::uint64_t memory_bytes() const { return memory_ ? memory_->bytes() : 0; }

  /// What this rank owes.
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
  Collective& dense();
  void clear_last(std::span<float> sum);
  void average(const Reduced& reduced, std::span<float> sum) const;

  const Layout layout_;
  std::shared_ptr<Traffic> traffic_;
  std::unique_ptr<Transport> channel_;
  std::unique_ptr<TimedCompressor> compressor_;
  std::unique_ptr<Collective> collective_;
  std::unique_ptr<Memory> memory_;   // none where it has nothing to do
  std::vector<std::uint32_t> last_;  // the coordinates that the last step wrote into sum
  std::size_t last_count_ = 0;       // how many there are; all, where last_ is empty
  std::span<const std::uint32_t>
      settled_;            // of the last step, in the collective's memory
  bool reducing_ = false;  // a reduce has begun and has not returned
  std::uint64_t step_ = 0;
  // Steps that did not settle everything: until the first, the ranks' memories are equal.
  std::uint64_t sparse_steps_ = 0;
  std::unique_ptr<Collective> dense_;  // of dense(), once it was asked for
};

}  // namespace topknot::engine

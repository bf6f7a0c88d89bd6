// SPDX-License-Identifier: Apache-2.0
//
// How the gradients of all ranks become one move of the weights. There are two variants:
//
//   EveryStep    the engine exchanges gradients, or updates made of them, on every step
//   LocalSteps   each rank takes some steps alone; the engine exchanges where they led
//
// A round is the steps up to and including one exchange: a single step with EveryStep. Between
// rounds all ranks have the same weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "job/job.h"
#include "job/optimizer.h"
#include "train/nonfinite.h"
#include "train/replica.h"
#include "train/task.h"

namespace topknot::train {

class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  /// Starts a step with all gradients at zero. `opens_round`: it is the first of its round.
  virtual void begin(double lr, bool opens_round) = 0;

  /// Whether gradients may be handed to the engine while the last backward pass still runs.
  virtual bool overlaps() const = 0;
  /// All gradients of the step are complete, and none has been handed to the engine.
  virtual void prepare_held() {}

  /// Ends the step `round.back()`: moves the weights where the step is finite, and exchanges
  /// where it `closes_round`. Sets the report of the step, and whether the steps of the round
  /// are finite.
  virtual void finish(std::span<StepRecord> round, bool closes_round) = 0;

  /// Where this rank's values were not finite in the round that has just closed.
  virtual std::optional<NonfiniteValues> locate_nonfinite(
      const Position& round_start) = 0;

  /// One dense exchange of all residuals, between rounds. A sum that is not finite is not
  /// applied. Returns the bytes sent. For exchanges of updates alone.
  virtual std::uint64_t settle();

  /// The optimizer of the job.
  virtual Optimizer& optimizer() = 0;
  /// The optimizer of what local steps add up to; null without.
  virtual Optimizer* outer() { return nullptr; }
};

/// The variant that the job asks for. All arguments must outlive it.
std::unique_ptr<Synchronizer> make_synchronizer(const Job& job, Task& task,
                                                Replica& replica, Transport& link);

/// Moves all weights by the optimizer, but for parameters whose agreed mean is an update: on
/// `scale` times their gradients, with the job's weight decay. `ranks`: as in Move.
void apply_gradients(const Job& job, Optimizer& optimizer, Replica& replica, double lr,
                     double scale, int ranks = 1);

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// The trainer's part of an exchange of updates (exchange = "updates"): what happens to a rank's
// own gradient before the memory makes an update of it, and how the mean update moves the weights.
//
//   clip    the rank's whole gradient, before it joins the residual; the mean update is never
//           scaled. A rank's own gradient is up to sqrt(P) times as long as the mean, so its limit
//           is sqrt(P) times the job's. The length is known only after the backward pass, so with
//           clip no gradient is handed to the engine before that
//   decay   coupled decay (sgd, adam) is added to the gradient, as in the optimizer; decoupled
//           decay (adamw) is subtracted from the weights, the same on every rank
//   move    weight -= update
#pragma once

#include <cstddef>

#include "job/job.h"
#include "train/replica.h"

namespace topknot::train {

class Updates {
 public:
  /// `job` and `replica` must outlive the object.
  Updates(const Job& job, Replica& replica, int ranks);

  /// Whether the job exchanges updates. Otherwise nothing else here is to be called.
  bool on() const noexcept { return on_; }
  /// Whether no gradient may be handed over before all are complete: see clip above.
  bool holds_gradients() const noexcept { return on_ && clip_ > 0; }

  /// One gradient is complete and about to be handed over: adds the decay.
  void prepare(std::size_t parameter);
  /// All gradients are complete, and none was handed over: clips them, then prepare() for each.
  void prepare_all();

  /// Moves the weights of a parameter by the mean update, which is in its gradient.
  void apply(std::size_t parameter, double lr);

 private:
  const Job& job_;
  const bool on_;
  const double clip_;
  const bool decoupled_;
  Replica& replica_;
};

}  // namespace topknot::train

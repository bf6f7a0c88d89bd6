// SPDX-License-Identifier: Apache-2.0
//
// The trainer's side of an exchange of updates (exchange = "updates"): what is done to a
// rank's own gradient before the memory's optimizer takes its step on it, and how an agreed
// update moves the weights.
//
//   clip    the rank's whole gradient, before anything joins the residual: what has been
//           agreed on is never scaled. A rank's own gradient is up to sqrt(P) times as long as
//           the mean's, so its limit is sqrt(P) times the job's. The length is known only
//           when backward is through, so with clip no bucket sets out before that.
//   decay   coupled decay (sgd, adam) joins the gradient, as in the optimizer; decoupled
//           decay (adamw) is taken off the agreed weights, the same on every rank
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

  /// Whether the job exchanges updates. The rest is for those that do.
  bool on() const noexcept { return on_; }
  /// Whether no gradient may be called ready before all are there: see clip above.
  bool holds_gradients() const noexcept { return on_ && clip_ > 0; }

  /// One gradient is complete and about to be called ready.
  void prepare(std::size_t parameter);
  /// All gradients are complete, and none was called ready: clips them, then as prepare().
  void prepare_all();

  /// Moves the weights of a parameter whose agreed mean is an update.
  void apply(std::size_t parameter, double lr);

 private:
  const Job& job_;
  const bool on_;
  const double clip_;
  const bool decoupled_;
  Replica& replica_;
};

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// Local steps: each rank takes H steps of its own with the job's optimizer, and only then
// do the ranks exchange how far they have come. A round is
//
//   begin       remember the weights, which are the same on all ranks
//   H times     forward, backward, the inner optimizer on the rank's own gradient
//   exchange    pseudo-gradient = weights at the start - weights now; weights go back
//               to the start; the engine agrees on its mean, by any scheme, as on any
//               gradient; the outer optimizer moves the weights by it: the same bits on
//               every rank
//
// What the scheme does not send stays owed in pseudo-gradients and joins the next round's.
// The inner optimizer's state is each rank's own, the outer one's is the same on all.
//
// A round that is not finite is not applied by anybody: the weights stay where it began, and
// the inner optimizers begin afresh, for nobody has kept what they were.
//
// Cost    2n floats, the start and the outer momentum; each round a copy and a difference.
// Paper   Douillard et al., "DiLoCo", arXiv 2311.08105 (dense); Sarfi et al.,
//         "SparseLoCo", arXiv 2508.15706 (chunked top-k of 2-bit values, error feedback
//         in place of outer momentum).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "job/job.h"
#include "job/optimizer.h"
#include "train/replica.h"

namespace topknot::train {

class LocalSteps {
 public:
  /// All of these but the job must outlive the object. Throws ConfigError when job.outer is
  /// no optimizer.
  LocalSteps(const Job& job, Replica& replica, Optimizer& inner);

  /// Starts a round. The weights are the same on all ranks.
  void begin();
  /// Sets all gradients to zero, for an inner step. No gradient is called ready in it.
  void clear_gradients();
  /// Ends the round, whatever the number of its steps: the same on all ranks.
  StepReport exchange();

  /// What moves the weights all ranks have.
  Optimizer& outer() noexcept { return *outer_; }

 private:
  void hand_over();
  void move();

  const double lr_;
  Replica& replica_;
  Optimizer& inner_;
  std::unique_ptr<Optimizer> outer_;
  std::vector<std::vector<float>> weights_;  // at the start of the round
};

}  // namespace topknot::train

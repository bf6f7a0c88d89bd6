// SPDX-License-Identifier: Apache-2.0
//
// Selection when every rank judges a part of the vector that on this step nobody else
// does: fold everything, look at one P-th of it. Two ways to say how much is large.
//
// controller=exact (ours). Together the ranks select the k largest of all that they see,
// exactly, on every step. One sweep takes what reaches a floor a little below the last
// threshold; GlobalTopK cuts that to k. Where too few reached it, on the first step or after
// a fall, every rank takes the k largest of its part, which the k largest of all are among,
// and GlobalTopK runs again. No threshold needs to be guessed,
// so there is no cold start at any scale and nothing to drift. It costs two rounds of at
// most 512 counters on most steps; the floor, the only thing kept, affects time alone.
//
// controller=published. The threshold starts at 1 / (2 sqrt k) and is scaled by a
// constant according to the last count: far from k for hundreds of steps when that start
// does not fit the gradient, then near 0.91 k, because inside the band of ten percent it
// only ever rises. No cap, so no bound on the volume. For comparison.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "collectives/primitives/global_topk.h"
#include "collectives/primitives/step_guard.h"
#include "topknot/compressor.h"
#include "topknot/params.h"
#include "topknot/state.h"

namespace topknot::collective {

class ExclusiveSelect {
 public:
  /// Reads the parameter controller=.
  explicit ExclusiveSelect(Params& params);

  /// Folds, and replaces `held` with what is selected of `mine`, the part of the vector
  /// that is this rank's; the parts of all ranks are disjoint and cover it. Zeros are not
  /// selected, but when `k` is all there is everything is, since a coordinate that is
  /// zero on one rank may not be on another.
  void run(StepGuard& guard, ResidualVector& residual, std::span<float> grad, Region mine,
           std::size_t k, Sparse& held);

  /// How many coordinates one rank can have selected of a vector of `n`: with
  /// controller=exact all ranks together select at most that.
  std::uint64_t most(std::uint64_t n, std::uint64_t k) const;

  /// Learns how many all ranks selected when `k` were wanted.
  void learn(std::uint64_t selected, std::uint64_t k);

  void visit_state(StateVisitor& visitor);

 private:
  /// Everything that reaches the floor; without one, the k largest that are not zero.
  class Candidates final : public Compressor {
   public:
    bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
                Sparse& out) override;

    std::optional<float> floor;
  };

  void select_exactly(StepGuard& guard, std::span<float> residual, std::span<float> grad,
                      Region mine, std::size_t k, Sparse& held);
  void aim(float last, bool missed, std::size_t k);

  const bool published_;
  Candidates candidates_;
  GlobalTopK global_topk_;
  float threshold_ = 0;  // that the last step came to; 0 before there was one
  float slack_ = 0.1F;   // the floor is so much below it
};

}  // namespace topknot::collective

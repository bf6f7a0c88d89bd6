// SPDX-License-Identifier: Apache-2.0
//
// Local steps: each rank takes H steps of its own with the job's optimizer, and then the ranks
// exchange how far they have come. A round is
//
//   begin       copy the weights, which are the same on all ranks
//   H times     forward, backward, the inner optimizer on the rank's own gradient
//   exchange    pseudo-gradient = weights at the start - weights now. The weights go back to
//               the start, the engine reduces the pseudo-gradients as any gradient, by any
//               scheme, and the outer optimizer moves the weights by their mean: the same bits
//               on every rank
//
// What the scheme does not send is a residual of pseudo-gradients, and joins the next round's.
// The inner optimizer's state is each rank's own, the outer one's is the same on all.
//
// With exchange = "updates" the mean change itself moves the weights: the outer optimizer is SGD
// at the rate 1. A rank then steps as in an exchange of updates on every step (train/updates.h):
// it clips its own gradient at sqrt(P) times the job's limit, and Adam's rate is sqrt(P) times the
// job's, because one rank's squares hold that much more noise than those of the mean. Now and then
// the ranks average these squares (train/second_moments.h). Momentum is not masked: few steps pass
// before most of a change is applied.
//
// No rank applies a round that is not finite: the weights stay where it began. The inner
// optimizers are reset, because nobody has kept their state of before.
//
// Cost    n floats for the start, and n for an outer momentum; each round a copy and a difference.
// Paper   Douillard et al., "DiLoCo", arXiv 2311.08105 (dense); Sarfi et al.,
//         "SparseLoCo", arXiv 2508.15706 (chunked top-k of 2-bit values, error feedback
//         in place of outer momentum).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/second_moments.h"
#include "train/synchronizer.h"

namespace topknot::train {

class LocalSteps final : public Synchronizer {
 public:
  /// All arguments must outlive the object. Throws ConfigError when job.outer is no optimizer.
  LocalSteps(const Job& job, Replica& replica, Transport& link);

  void begin(double lr, bool opens_round) override;
  bool overlaps() const override { return false; }
  void finish(std::span<StepRecord> round, bool closes_round) override;
  std::optional<NonfiniteValues> locate_nonfinite(const Position& round_start) override;
  std::uint64_t settle() override;
  Optimizer& optimizer() override { return *inner_; }
  Optimizer* outer() override { return outer_.get(); }

  /// Closes the round, after any number of steps that is the same on all ranks.
  StepReport exchange();

 private:
  bool step_alone(double lr);
  void average_squares(StepReport& report);
  void hand_over();
  void move();

  const Job& job_;
  Replica& replica_;
  Transport& link_;
  const int ranks_;    // whose own steps are averaged; 1 with an outer optimizer
  const double clip_;  // of this rank's own gradient
  std::unique_ptr<Optimizer> inner_;
  std::unique_ptr<Optimizer> outer_;
  std::optional<SecondMoments> second_moments_;  // of updates
  std::vector<std::vector<float>> start_;        // the weights at the start of the round
  std::optional<NonfiniteValues> nonfinite_;     // the first of this rank in the round
  double step_began_ = 0;                        // by the link's clock
};

}  // namespace topknot::train

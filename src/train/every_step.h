// SPDX-License-Identifier: Apache-2.0
//
// The engine exchanges on every step. What it exchanges is up to the job:
//
//   gradients   the optimizer moves the weights by their mean, clipped
//   updates     each rank's own optimizer, which is the engine's memory, makes an update of its
//               gradient, and the weights move by the updates' mean (train/updates.h).
//               Parameters that are sent whole are exchanged as gradients all the same
#pragma once

#include <memory>

#include "train/synchronizer.h"
#include "train/updates.h"

namespace topknot::train {

class EveryStep final : public Synchronizer {
 public:
  /// All arguments must outlive the object.
  EveryStep(const Job& job, Task& task, Replica& replica, int ranks);

  void begin(double lr, bool opens_round) override;
  bool overlaps() const override { return !updates_.holds_gradients(); }
  void prepare_held() override;
  void finish(std::span<StepRecord> round, bool closes_round) override;
  std::optional<NonfiniteValues> locate_nonfinite(const Position& round_start) override;
  std::uint64_t settle() override;
  Optimizer& optimizer() override { return *optimizer_; }

 private:
  void apply_updates(double lr);

  const Job& job_;
  Task& task_;
  Replica& replica_;
  Updates updates_;
  const double clip_;  // of the mean gradient; 0: any length
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace topknot::train

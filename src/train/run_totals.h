// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "train/train.h"

namespace topknot::train {

/// Sums over the steps of an epoch and of the run.
class RunTotals {
 public:
  void add(std::span<const StepRecord> round);
  void add_settling(std::uint64_t sent_bytes);

  /// The mean loss of the epoch's applied steps, NaN where there are none; the next epoch begins.
  double end_epoch();
  /// The mean loss of the epoch under way, or of the last one where it has no step yet.
  double train_loss() const;

  /// Writes the sums, as means over `steps` steps where that is what they are, into `outcome`.
  void write_to(Outcome& outcome, std::uint64_t steps) const;

 private:
  double sent_bytes_ = 0;
  std::uint64_t settle_bytes_ = 0;
  std::uint64_t applied_steps_ = 0;
  double exposed_seconds_ = 0;
  double busy_seconds_ = 0;
  double epoch_loss_ = 0;
  std::uint64_t epoch_steps_ = 0;  // that were applied
  double last_epoch_loss_ = 0;     // mean
};

}  // namespace topknot::train

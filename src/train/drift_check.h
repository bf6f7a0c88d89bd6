// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "job/comparison.h"
#include "train/checkpoint.h"

namespace topknot::train {

/// Compares the ranks' weights and optimizers between rounds, when they must be equal: every
/// `check_every` steps, before a checkpoint and at the end.
class DriftCheck {
 public:
  /// `comparison` must outlive the object.
  DriftCheck(const Job& job, Comparison& comparison)
      : every_(static_cast<std::uint64_t>(job.check_every)), comparison_(comparison) {}

  /// The ranks are known to be equal at this step.
  void start_at(std::uint64_t step) { equal_at_ = step; }
  /// Whether `every` steps have passed; at the first end of a round after that.
  bool is_due(std::uint64_t step) const;
  /// Does nothing in jobs without checks, or where the ranks have been compared at this step.
  /// Throws DriftError, on all ranks.
  void require_equal(Live live);

 private:
  const std::uint64_t every_;  // steps; 0: never
  Comparison& comparison_;
  std::uint64_t equal_at_ = 0;
};

}  // namespace topknot::train

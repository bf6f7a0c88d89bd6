// SPDX-License-Identifier: Apache-2.0
//
// When a rank that shares cores with others is through with its work.
//
// A core serves those that want it in turn, each for a slice at most. So ranks that work for long
// share the cores evenly, and what is shorter than a slice is done without a break.
#pragma once

#include <vector>

#include "topknot/simulated.h"

namespace topknot::transports {

class CoreQueue {
 public:
  /// Throws ConfigError for cores that cannot be.
  explicit CoreQueue(const Cores& cores);

  /// Whether ranks wait for each other's work at all.
  bool is_shared() const { return !free_at_.empty(); }
  double slice() const { return slice_; }
  /// When `seconds` of work are done that a rank wants to begin at `time`. Calls are in the order of
  /// time.
  double serve(double time, double seconds);

 private:
  std::vector<double> free_at_;  // by core
  const double slice_;
};

}  // namespace topknot::transports

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "train/task.h"

namespace topknot::train {

/// How far a run is, and what it has before it. The same on all ranks.
class Progress {
 public:
  /// `job` and `task` must outlive the object.
  Progress(const Job& job, const Task& task) : job_(job), task_(task) {}

  std::uint64_t samples_per_step() const;
  std::uint64_t steps_per_epoch() const;

  /// No full step is left in the epoch.
  bool epoch_is_done() const;
  /// The epoch is the run's last.
  bool is_last_epoch() const;
  /// The run has taken all of its epochs, or of its steps.
  bool is_over() const;
  /// Epochs from the start, parts of them included.
  double epochs() const;
  /// The steps that the run will have taken at its end, those before a resume included.
  std::uint64_t steps_at_end() const;

  void end_epoch();

  Position position;

 private:
  const Job& job_;
  const Task& task_;
};

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "train/replica.h"
#include "train/task.h"

namespace topknot::train {

/// The mean loss of some passes, and what they took.
struct Passed {
  double loss = 0;
  double data_seconds = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
};

/// Goes forward and backward `job.accumulate` times from `at`, which advances. The gradients are
/// added up, each pass counting for its share. With `overlap` they are handed to the engine as
/// the last pass completes them.
Passed run_passes(const Job& job, Task& task, Replica& replica, Position& at,
                  bool overlap);

/// What passes leave behind on this rank: running statistics, and what the task carries over.
std::vector<std::span<float>> pass_state(Task& task, const Replica& replica);

/// The seconds of one step's passes from the start of the data. They leave nothing behind but
/// gradients.
double time_passes(const Job& job, Task& task, Replica& replica);

}  // namespace topknot::train

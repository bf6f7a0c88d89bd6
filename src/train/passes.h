// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "train/replica.h"
#include "train/task.h"

namespace topknot::train {

/// Goes forward and backward `job.accumulate` times from `at`, which advances. The gradients are
/// added up, each pass counting for its share. With `overlap` they are handed to the engine as
/// the last pass completes them. Returns the mean loss.
double run_passes(const Job& job, Task& task, Replica& replica, Position& at,
                  bool overlap);

/// What passes leave behind on this rank: running statistics, and what the task carries over.
std::vector<std::span<float>> pass_state(Task& task, const Replica& replica);

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/train.h"

namespace topknot::cli {

/// Prints the job as it would be run: its keys, the parts of the exchange, the model, buckets,
/// bytes and memory. Makes the model and trains nothing. Throws what making it throws, after the
/// keys are printed.
void print_dry_run(const train::Job& job, bool json);

/// What one worker keeps at least: weights, gradients, the optimizer's state and residuals.
std::uint64_t worker_bytes(const train::Start& start);

/// What train() would begin with, found by one rank alone.
train::Start plan_alone(const train::Job& job);

}  // namespace topknot::cli

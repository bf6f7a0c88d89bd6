// SPDX-License-Identifier: Apache-2.0
//
// What must be the same on all ranks once there is a model, as fields to compare: before the
// first step, and now and then while training goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/comparison.h"
#include "train/checkpoint.h"

namespace topknot::train {

/// What does the arithmetic: the wire format, torch, and the instructions that torch has
/// chosen for this processor.
Fields build_fields();

/// What the ranks do together besides the job. Paths may differ between hosts.
Fields fields_of(const TrainOptions& options);

/// Names and shapes of the parameters, and the data.
Fields model_fields(const Replica& replica, const Task& task);

/// Where training stands, and hashes of the weights and of what the optimizer keeps, tensor by
/// tensor. Between rounds of local steps that is the outer optimizer; the inner one's state is
/// each rank's own.
Fields state_fields(Live live);

}  // namespace topknot::train

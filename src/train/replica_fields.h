// SPDX-License-Identifier: Apache-2.0
//
// Fields that must be equal on all ranks once there is a model: compared before the first step,
// and every `check_every` steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/comparison.h"
#include "train/checkpoint.h"

namespace topknot::train {

/// The wire format, torch's version, and the instruction set that torch has chosen.
Fields build_fields();

/// Options that all ranks must agree on. Paths may differ between hosts.
Fields fields_of(const TrainOptions& options);

/// Names and shapes of the parameters, and the data.
Fields model_fields(const Replica& replica, const Task& task);

/// The position in the run, and hashes of the weights and of the optimizer's state, tensor by
/// tensor. With local steps it is the outer optimizer's: the inner state is each rank's own.
Fields state_fields(Live live);

}  // namespace topknot::train

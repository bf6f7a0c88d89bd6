// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "train/replica.h"
#include "train/task.h"
#include "transports/control_channel.h"

namespace topknot::train {

/// What the test set says of the model; the same on all ranks.
struct Evaluation {
  double test_loss = 0;
  Metric metric;
  std::vector<Metric> others;
  double score = 0;  ///< for the schedule of the learning rate: lower is better
};

/// All ranks call it; each evaluates its share. The running statistics of all ranks become
/// their mean.
Evaluation evaluate(Task& task, Replica& replica, ControlChannel& control);

}  // namespace topknot::train

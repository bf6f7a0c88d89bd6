// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.h"

namespace topknot::train {

Evaluation evaluate(Task& task, Replica& replica, ControlChannel& control) {
  for (const auto& [name, tensor] : replica.statistics())
    control.average(span_of(tensor));
  const std::vector<double> sums = control.sum(task.evaluate());
  return {.test_loss = sums[1] / sums[0],
          .metric = task.metric(sums),
          .others = task.others(sums),
          .score = task.score(sums)};
}

}  // namespace topknot::train

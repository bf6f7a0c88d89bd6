// SPDX-License-Identifier: Apache-2.0
#include "train/passes.h"

namespace topknot::train {

Passed run_passes(const Job& job, Task& task, Replica& replica, Position& at,
                  bool overlap) {
  Passed all;
  for (std::int64_t i = 0; i < job.accumulate; ++i) {
    const Stopwatch forward;
    const torch::Tensor loss = task.loss(at) / static_cast<double>(job.accumulate);
    all.data_seconds += task.data_seconds();
    all.forward_seconds += forward.seconds() - task.data_seconds();
    at.sample += task.samples_per_pass();
    const Stopwatch backward;
    replica.backward(loss, overlap && i + 1 == job.accumulate);
    all.backward_seconds += backward.seconds();
    all.loss += loss.item<double>();
  }
  return all;
}

std::vector<std::span<float>> pass_state(Task& task, const Replica& replica) {
  std::vector<std::span<float>> all;
  for (const auto& [name, tensor] : replica.statistics()) all.push_back(span_of(tensor));
  for (const auto& [name, tensor] : task.carried()) all.push_back(span_of(tensor));
  return all;
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "train/passes.h"

namespace topknot::train {

double run_passes(const Job& job, Task& task, Replica& replica, Position& at,
                  bool overlap) {
  double mean = 0;
  for (std::int64_t i = 0; i < job.accumulate; ++i) {
    const torch::Tensor loss = task.loss(at) / static_cast<double>(job.accumulate);
    at.sample += task.samples_per_pass();
    replica.backward(loss, overlap && i + 1 == job.accumulate);
    mean += loss.item<double>();
  }
  return mean;
}

std::vector<std::span<float>> pass_state(Task& task, const Replica& replica) {
  std::vector<std::span<float>> all;
  for (const auto& [name, tensor] : replica.statistics()) all.push_back(span_of(tensor));
  for (const auto& [name, tensor] : task.carried()) all.push_back(span_of(tensor));
  return all;
}

}  // namespace topknot::train

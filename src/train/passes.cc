// SPDX-License-Identifier: Apache-2.0
#include "train/passes.h"

#include "job/pass_memory.h"
#include "train/stopwatch.h"

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

// The first is slow for reasons of its own, unless it takes so long that these do not count.
double time_passes(const Job& job, Task& task, Replica& replica) {
  constexpr double kLong = 1;
  PassMemory before(pass_state(task, replica));
  before.keep();
  double seconds = 0;
  for (int i = 0; i < 3 && seconds < kLong; ++i) {
    const Stopwatch watch;
    Position start;
    run_passes(job, task, replica, start, /*overlap=*/false);
    seconds = watch.seconds();
    before.restore();
  }
  return seconds;
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "train/start.h"

#include "core/text.h"

namespace topknot::train {

Start describe_start(const Job& job, const Progress& progress, const Task& task,
                     Replica& replica, int ranks,
                     const std::vector<std::string>& notices) {
  const auto all = static_cast<std::uint64_t>(ranks);
  Start start;
  start.job = job;
  for (const std::size_t size : replica.sizes()) start.parameters += size;
  start.train_samples = task.train_samples();
  start.test_samples = task.test_samples();
  start.data_fingerprint = core::hexadecimal(task.data_fingerprint());
  start.steps_per_epoch = progress.steps_per_epoch();
  start.steps = progress.steps_at_end();
  start.first_step = progress.position.step;
  start.dense_bytes = 8 * start.parameters * (all - 1) / all;
  start.buckets = replica.engine().buckets();
  start.gradient_bytes = start.parameters * sizeof(float);
  start.engine_bytes = replica.engine().memory_bytes();
  start.notices = notices;
  return start;
}

}  // namespace topknot::train

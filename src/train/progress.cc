// SPDX-License-Identifier: Apache-2.0
#include "train/progress.h"

#include <algorithm>

namespace topknot::train {

std::uint64_t Progress::samples_per_step() const {
  return task_.samples_per_pass() * static_cast<std::uint64_t>(job_.accumulate);
}

std::uint64_t Progress::steps_per_epoch() const {
  return std::max<std::uint64_t>(task_.train_samples() / samples_per_step(), 1);
}

bool Progress::epoch_is_done() const {
  return position.sample + samples_per_step() > task_.train_samples();
}

bool Progress::is_last_epoch() const {
  return position.epoch + 1 == static_cast<std::uint64_t>(job_.epochs);
}

bool Progress::is_over() const {
  const auto limit = static_cast<std::uint64_t>(job_.steps);
  return position.epoch >= static_cast<std::uint64_t>(job_.epochs) ||
         (limit > 0 && position.step >= limit);
}

double Progress::epochs() const {
  const double share =
      static_cast<double>(position.sample) / static_cast<double>(task_.train_samples());
  return static_cast<double>(position.epoch) + std::min(share, 1.0);
}

// Counted in samples: before a resume steps may have been larger or smaller.
std::uint64_t Progress::steps_at_end() const {
  const auto epochs = static_cast<std::uint64_t>(job_.epochs);
  std::uint64_t steps = position.step;
  if (position.epoch < epochs) {
    const std::uint64_t left =
        task_.train_samples() - std::min(position.sample, task_.train_samples());
    steps += position.sample == 0 ? steps_per_epoch() : left / samples_per_step();
    steps += (epochs - position.epoch - 1) * steps_per_epoch();
  }
  return job_.steps > 0 ? std::min(steps, static_cast<std::uint64_t>(job_.steps)) : steps;
}

void Progress::end_epoch() {
  ++position.epoch;
  position.sample = 0;
}

}  // namespace topknot::train

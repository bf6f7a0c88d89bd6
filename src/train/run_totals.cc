// SPDX-License-Identifier: Apache-2.0
#include "train/run_totals.h"

#include <algorithm>
#include <limits>

namespace topknot::train {

void RunTotals::add(std::span<const StepRecord> round) {
  for (const StepRecord& step : round) {
    sent_bytes_ += static_cast<double>(step.sent_bytes);
    exposed_seconds_ += step.report.exposed_seconds;
    busy_seconds_ += step.report.busy_seconds;
    if (!step.finite) continue;
    ++applied_steps_;
    epoch_loss_ += step.loss;
    ++epoch_steps_;
  }
}

void RunTotals::add_settling(std::uint64_t sent_bytes) { settle_bytes_ += sent_bytes; }

double RunTotals::end_epoch() {
  last_epoch_loss_ =
      epoch_steps_ > 0 ? train_loss() : std::numeric_limits<double>::quiet_NaN();
  epoch_loss_ = 0;
  epoch_steps_ = 0;
  return last_epoch_loss_;
}

double RunTotals::train_loss() const {
  return epoch_steps_ > 0 ? epoch_loss_ / static_cast<double>(epoch_steps_)
                          : last_epoch_loss_;
}

void RunTotals::write_to(Outcome& outcome, std::uint64_t steps) const {
  const auto count = static_cast<double>(std::max<std::uint64_t>(steps, 1));
  outcome.settle_bytes = settle_bytes_;
  outcome.sent_bytes_per_step =
      (sent_bytes_ + static_cast<double>(settle_bytes_)) /
      static_cast<double>(std::max<std::uint64_t>(applied_steps_, 1));
  outcome.exposed_seconds_per_step = exposed_seconds_ / count;
  outcome.overlap =
      busy_seconds_ > 0 ? std::clamp(1 - exposed_seconds_ / busy_seconds_, 0.0, 1.0) : 0;
}

}  // namespace topknot::train

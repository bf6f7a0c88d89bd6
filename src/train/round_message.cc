// SPDX-License-Identifier: Apache-2.0
#include "train/round_message.h"

#include <algorithm>

namespace topknot::train {

bool share_round(ControlChannel& control, std::span<StepRecord> round,
                 bool asked_to_stop) {
  std::vector<double> mine = {asked_to_stop ? 1.0 : 0.0};
  for (StepRecord& step : round) {
    mine.insert(mine.end(), {step.loss, step.finite ? 1.0 : 0.0,
                             static_cast<double>(step.report.sent_bytes)});
    step.loss = 0;
  }
  bool stopping = false;
  const std::vector<std::vector<double>> all = control.gather(mine);
  for (const std::vector<double>& one : all) {
    stopping |= one[0] != 0;
    auto value = one.begin() + 1;
    for (StepRecord& step : round) {
      step.loss += *value++;
      step.finite &= *value++ != 0;
      step.sent_bytes = std::max(step.sent_bytes, static_cast<std::uint64_t>(*value++));
    }
  }
  for (StepRecord& step : round) step.loss /= static_cast<double>(all.size());
  return stopping;
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "train/round_message.h"

#include <algorithm>

namespace topknot::train {

RoundAgreement share_round(ControlChannel& control, std::span<StepRecord> round,
                           RoundAgreement own) {
  std::vector<double> mine = {own.stopping ? 1.0 : 0.0, own.is_written ? 1.0 : 0.0};
  for (StepRecord& step : round) {
    mine.insert(mine.end(), {step.loss, step.finite ? 1.0 : 0.0,
                             static_cast<double>(step.report.sent_bytes)});
    step.loss = 0;
  }
  RoundAgreement agreed{.stopping = false, .is_written = true};
  const std::vector<std::vector<double>> all = control.gather(mine);
  for (const std::vector<double>& one : all) {
    agreed.stopping |= one[0] != 0;
    agreed.is_written &= one[1] != 0;
    auto value = one.begin() + 2;
    for (StepRecord& step : round) {
      step.loss += *value++;
      step.finite &= *value++ != 0;
      step.sent_bytes = std::max(step.sent_bytes, static_cast<std::uint64_t>(*value++));
    }
  }
  for (StepRecord& step : round) step.loss /= static_cast<double>(all.size());
  return agreed;
}

}  // namespace topknot::train

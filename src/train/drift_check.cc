// SPDX-License-Identifier: Apache-2.0
#include "train/drift_check.h"

#include "train/replica_fields.h"

namespace topknot::train {

bool DriftCheck::is_due(std::uint64_t step) const {
  return every_ > 0 && step / every_ > equal_at_ / every_;
}

void DriftCheck::require_equal(Live live) {
  const std::uint64_t step = live.position.step;
  if (every_ == 0 || step == equal_at_) return;
  const std::vector<Difference> found = comparison_.differences(state_fields(live));
  if (!found.empty()) throw DriftError(step, equal_at_, found);
  equal_at_ = step;
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace topknot::train {

/// What forward passes leave behind on this rank, running statistics and carried states, as it
/// was at a time: a pass that was not finite may have poisoned it for all that come after.
class PassMemory {
 public:
  explicit PassMemory(std::vector<std::span<float>> live) : live_(std::move(live)) {
    for (const std::span<float> one : live_) kept_.emplace_back(one.size());
  }

  void keep() {
    for (std::size_t i = 0; i < live_.size(); ++i)
      std::ranges::copy(live_[i], kept_[i].begin());
  }
  void restore() {
    for (std::size_t i = 0; i < live_.size(); ++i)
      std::ranges::copy(kept_[i], live_[i].begin());
  }

 private:
  const std::vector<std::span<float>> live_;
  std::vector<std::vector<float>> kept_;
};

}  // namespace topknot::train

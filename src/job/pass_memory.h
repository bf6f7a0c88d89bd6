// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace topknot::train {

/// A copy of the state that forward passes leave behind on this rank: running statistics and
/// carried states. A pass that is not finite may put NaN into it, which would stay: then the copy
/// is restored.
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

// SPDX-License-Identifier: Apache-2.0
#include "topknot/memory.h"

#include <cmath>

namespace topknot {

void Memory::undo_sum(std::span<const std::uint32_t> index, std::span<const float> mean) {
  const std::span<float> kept = residual();
  const auto add = [&](std::size_t i) {
    const float sum = kept[i] + mean[i];
    if (std::isfinite(sum)) kept[i] = sum;
  };
  if (index.empty()) {
    for (std::size_t i = 0; i < kept.size(); ++i) add(i);
  } else {
    for (const std::uint32_t i : index) add(i);
  }
}

}  // namespace topknot

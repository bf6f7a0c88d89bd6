// SPDX-License-Identifier: Apache-2.0
#include "topknot/memory.h"

#include <algorithm>
#include <cmath>

namespace topknot {

void Memory::clear_residual() { std::ranges::fill(residual(), 0.0F); }

void Memory::undo_sum(std::span<const std::uint32_t> index, std::span<const float> mean) {
  const std::span<float> into = residual();
  for (std::size_t j = 0; j < mean.size(); ++j) {
    float& value = into[index.empty() ? j : index[j]];
    if (std::isfinite(value + mean[j])) value += mean[j];
  }
}

}  // namespace topknot

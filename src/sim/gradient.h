// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"

namespace topknot::sim {

/// Fills `x` with Laplace numbers, which have the heavy tail of a gradient: `correlation` of the
/// stream that all ranks share, the rest of this one's own.
inline void fill_gradient(std::span<float> x, int rank, int which, double correlation) {
  core::Random common(1000 + static_cast<std::uint64_t>(which));
  core::Random own(1000 * (static_cast<std::uint64_t>(rank) + 2) +
                   static_cast<std::uint64_t>(which));
  const auto shared = static_cast<float>(correlation);
  for (float& value : x) value = shared * common.laplace() + (1 - shared) * own.laplace();
}

}  // namespace topknot::sim

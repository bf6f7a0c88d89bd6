// SPDX-License-Identifier: Apache-2.0
#include "core/finite.h"

#include <bit>
#include <cstdint>

namespace topknot::core {

// Without an early exit, so that it can be done eight at a time.
bool all_finite(std::span<const float> x) {
  bool finite = true;
  for (const float v : x)
    finite &= (std::bit_cast<std::uint32_t>(v) & 0x7F800000U) != 0x7F800000U;
  return finite;
}

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
//
// Values by a formula, which python/tests/engine_cases.py has too.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace topknot::testing {

/// Exact in 20 bits, of magnitudes from 2^-30 on, so that sums round.
inline void draw_values(std::span<float> values, std::uint64_t rank, std::uint64_t step,
                        std::uint64_t parameter) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const std::uint64_t mixed =
        i * 7919 + rank * 104'729 + step * 1'299'709 + parameter * 15'485'863;
    const auto whole =
        static_cast<float>(static_cast<std::int64_t>(mixed % 1'048'573) - 524'286);
    values[i] = std::ldexp(whole, static_cast<int>((i * 31 + parameter) % 24) - 30);
  }
}

}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
//
// Floats of very different magnitudes, side by side: what (a + g) - g does not give back.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"

namespace topknot::testing {

/// Ones, 1e9 and its negative, both zeros, denormals, and random bits of a magnitude below
/// 2^100, so that sums of many are finite.
inline std::vector<float> wild(std::size_t n, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> x(n);
  for (float& value : x) {
    const std::uint64_t bits = core::random_bits(seed, random.below(1ULL << 62));
    const auto sign = static_cast<std::uint32_t>(bits >> 63) << 31;
    switch (bits % 6) {
      case 0:
        value = 1;
        break;
      case 1:
        value = sign != 0 ? -1e9F : 1e9F;
        break;
      case 2:
        value = std::bit_cast<float>(sign);
        break;
      case 3:
        value = std::bit_cast<float>(
            sign | (static_cast<std::uint32_t>(bits >> 8) & 0x007FFFFFU));
        break;
      case 4:
        value = random.laplace();
        break;
      default:
        value = std::bit_cast<float>(
            sign | (static_cast<std::uint32_t>(bits >> 8) % ((127U + 100) << 23)));
    }
  }
  return x;
}

inline std::vector<std::uint32_t> bits_of(std::span<const float> x) {
  std::vector<std::uint32_t> bits;
  for (const float value : x) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
//
// The order of an epoch's samples as a function: a list of a hundred million samples would take
// 400 MB on each rank.
#pragma once

#include <bit>
#include <cstdint>

#include "core/random.h"

namespace topknot::train {

/// A shuffle of [0, size) by seed, element by element: a Feistel network on the next even number
/// of bits, applied again until the result is below `size` (at most four times, on average).
class Permutation {
 public:
  /// `size` is not 0.
  Permutation(std::uint64_t size, std::uint64_t seed)
      : size_(size),
        half_((static_cast<std::uint64_t>(std::bit_width(size - 1)) + 1) / 2),
        seed_(seed) {}

  /// The element at position `i`, which is below size.
  std::uint64_t operator()(std::uint64_t i) const {
    do i = scramble(i);
    while (i >= size_);
    return i;
  }

 private:
  static constexpr std::uint64_t kRounds = 6;

  std::uint64_t scramble(std::uint64_t x) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
    std::uint64_t high = x >> half_;
    std::uint64_t low = x & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t key = core::random_bits(seed_, round);
      const std::uint64_t next = high ^ (core::random_bits(key, low) & mask);
      high = low;
      low = next;
    }
    return high << half_ | low;
  }

  std::uint64_t size_;
  std::uint64_t half_;  // bits
  std::uint64_t seed_;
};

}  // namespace topknot::train

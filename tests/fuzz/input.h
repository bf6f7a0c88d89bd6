// SPDX-License-Identifier: Apache-2.0
//
// What a fuzzer makes of its bytes: numbers, and vectors that are hard to select from.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/random.h"

namespace topknot::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Takes numbers from the front of an input; zeros when it has ended.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> left) : left_(left) {
    for (const std::uint8_t x : left) hash_ = core::random_bits(hash_, x);
  }

  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const std::uint8_t x = left_.front();
    left_ = left_.subspan(1);
    return x;
  }
  /// Small ones are as likely as large ones.
  std::uint64_t number() {
    const std::uint8_t x = byte();
    return x < 192 ? x : (std::uint64_t{x} << (byte() % 24)) + byte();
  }
  /// Any float at all.
  float bits() {
    std::uint32_t x = 0;
    for (int i = 0; i < 4; ++i) x = x << 8 | byte();
    return std::bit_cast<float>(x);
  }
  std::span<const std::uint8_t> left() const { return left_; }
  /// Of the whole input: a choice that every change of it makes anew.
  std::uint64_t hash() const { return hash_; }

 private:
  std::span<const std::uint8_t> left_;
  std::uint64_t hash_ = 0;
};

/// Up to `most` floats, by one of four ways that the input chooses: any bits; a few values
/// in any order; a few in an order drawn from a seed, which makes long vectors of short
/// inputs; and so many units in the last place above a value. Long vectors take most of the
/// time, so that one input in 32 has them.
inline std::vector<float> floats(Input& input, std::size_t most) {
  const std::uint8_t way = input.byte();
  std::size_t n = std::min<std::size_t>(input.number(), most);
  if (n > 256 && input.hash() % 32 != 0) n %= 256;
  std::vector<float> x(n);
  if (way % 4 == 0) {
    for (float& v : x) v = input.bits();
    return x;
  }
  std::vector<float> values(1 + way / 4 % 8);
  for (float& v : values) v = input.bits();
  core::Random random(input.byte());
  const unsigned widest = input.byte() % 24;
  for (float& v : x) {
    switch (way % 4) {
      case 1:
        v = values[input.byte() % values.size()];
        break;
      case 2:
        v = values[random.below(values.size())];
        break;
      default:
        v = std::bit_cast<float>(
            std::bit_cast<std::uint32_t>(values[random.below(values.size())]) +
            static_cast<std::uint32_t>(
                random.below(std::uint64_t{1} << random.below(widest + 1))));
        break;
    }
    if (way >= 128 && random.below(2) == 0) v = -v;
  }
  return x;
}

/// The same with everything finite: what is not becomes smaller than the largest float by
/// far, so that a few may be added.
inline std::vector<float> finite_floats(Input& input, std::size_t most) {
  std::vector<float> x = floats(input, most);
  for (float& v : x) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    if ((bits & 0x7F800000) >= 0x7D000000) v = std::bit_cast<float>(bits ^ 0x40000000);
  }
  return x;
}

}  // namespace topknot::fuzz

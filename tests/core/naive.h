// SPDX-License-Identifier: Apache-2.0
//
// Selection by the standard library alone, over keys that no two coordinates share: slow,
// and plainly right.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "topknot/sparse.h"

namespace topknot::testing {

/// The coordinates of a vector in order of magnitude, of equals the lower position first.
/// NaN is larger than infinity.
class Ranking {
 public:
  explicit Ranking(std::span<const float> x) : x_(x.begin(), x.end()) {
    for (std::size_t i = 0; i < x.size(); ++i)
      keys_.push_back(std::uint64_t{~magnitude_bits(x[i])} << 32 | i);
  }

  std::size_t size() const { return x_.size(); }
  std::span<const float> vector() const { return x_; }

  /// The k largest, in order of position.
  Sparse largest(std::size_t k) const {
    Sparse out;
    if (k == 0 || x_.empty()) return out;
    const std::uint64_t last = key_at(std::min(k, x_.size()) - 1);
    for (std::size_t i = 0; i < x_.size(); ++i)
      if (keys_[i] <= last) out.push_back(static_cast<std::uint32_t>(i), x_[i]);
    return out;
  }

  /// The magnitude of the largest (rank 0), the second largest (1), and so on.
  float magnitude_at(std::size_t rank) const {
    return std::bit_cast<float>(~static_cast<std::uint32_t>(key_at(rank) >> 32));
  }

  /// How many magnitudes are at least `threshold`.
  std::size_t reaching(float threshold) const {
    return static_cast<std::size_t>(std::count_if(
        x_.begin(), x_.end(), [&](float v) { return std::abs(v) >= threshold; }));
  }

 private:
  static std::uint32_t magnitude_bits(float x) {
    return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
  }

  std::uint64_t key_at(std::size_t rank) const {
    std::vector<std::uint64_t> keys = keys_;
    const auto nth = keys.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(keys.begin(), nth, keys.end());
    return *nth;
  }

  std::vector<float> x_;
  std::vector<std::uint64_t> keys_;  // by position; the largest coordinate has the least
};

/// The same positions and the same bits: tells -0.0 from 0.0.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>,
                            std::bit_cast<std::uint32_t, float>);
}
inline bool same_bits(const Sparse& a, const Sparse& b) {
  return a.index == b.index && same_bits(std::span(a.value), std::span(b.value));
}

}  // namespace topknot::testing

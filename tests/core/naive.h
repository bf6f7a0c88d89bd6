// SPDX-License-Identifier: Apache-2.0
//
// Selection by sorting everything: slow, and plainly right.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "topknot/sparse.h"

namespace topknot::testing {

/// All coordinates of a vector in order of magnitude, of equals the lower position first.
/// NaN is larger than infinity.
class Ranking {
 public:
  explicit Ranking(std::span<const float> x) : x_(x.begin(), x.end()), rank_(x.size()) {
    for (std::size_t i = 0; i < x.size(); ++i)
      order_.push_back(std::uint64_t{~magnitude(x[i])} << 32 | i);
    std::sort(order_.begin(), order_.end());
    for (std::size_t r = 0; r < order_.size(); ++r) rank_[order_[r] & 0xFFFFFFFF] = r;
  }

  std::size_t size() const { return x_.size(); }
  std::span<const float> vector() const { return x_; }

  /// The k largest, in order of position.
  Sparse largest(std::size_t k) const {
    Sparse out;
    for (std::size_t i = 0; i < x_.size(); ++i)
      if (rank_[i] < k) out.push_back(static_cast<std::uint32_t>(i), x_[i]);
    return out;
  }

  /// The magnitude of the largest (rank 0), the second largest (1), and so on.
  float magnitude_at(std::size_t rank) const {
    return std::bit_cast<float>(~static_cast<std::uint32_t>(order_[rank] >> 32));
  }

  /// How many magnitudes are at least `threshold`, when all are finite.
  std::size_t reaching(float threshold) const {
    return static_cast<std::size_t>(
        std::partition_point(order_.begin(), order_.end(),
                             [&](std::uint64_t key) {
                               return std::bit_cast<float>(~static_cast<std::uint32_t>(
                                          key >> 32)) >= threshold;
                             }) -
        order_.begin());
  }

 private:
  static std::uint32_t magnitude(float x) {
    return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
  }

  std::vector<float> x_;
  std::vector<std::uint64_t> order_;
  std::vector<std::size_t> rank_;
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

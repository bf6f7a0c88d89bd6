// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace topknot {

/// The longest vector that is reduced as one: positions in it have 32 bits.
inline constexpr std::uint64_t kMostCoordinates = 0xFFFFFFFF;
/// Throws ConfigError for a longer one.
void check_length(std::uint64_t coordinates);

/// One parameter's place in a bucket: its coordinates are [offset, offset + size()).
struct TensorSlot {
  std::string name;
  std::uint64_t offset = 0;
  std::vector<std::uint64_t> shape;

  /// At most the largest 64-bit number, however long it is.
  std::uint64_t size() const noexcept {
    constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
    for (const std::uint64_t extent : shape)
      if (extent == 0) return 0;
    std::uint64_t product = 1;
    for (const std::uint64_t extent : shape) {
      if (product > kLargest / extent) return kLargest;
      product *= extent;
    }
    return product;
  }
  friend bool operator==(const TensorSlot&, const TensorSlot&) = default;
};

/// The tensors inside a bucket, in the order of their offsets, without gaps.
struct Layout {
  std::vector<TensorSlot> tensors;

  /// A bucket that is one vector of `n` coordinates.
  static Layout flat(std::uint64_t n) { return {{{"flat", 0, {n}}}}; }
  /// At most the largest 64-bit number, however long it is.
  std::uint64_t size() const noexcept {
    if (tensors.empty()) return 0;
    const std::uint64_t last = tensors.back().size();
    const std::uint64_t room =
        std::numeric_limits<std::uint64_t>::max() - tensors.back().offset;
    return tensors.back().offset + (last < room ? last : room);
  }
  friend bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace topknot

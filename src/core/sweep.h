// SPDX-License-Identifier: Apache-2.0
//
// The sweep under everything that folds and selects, one block at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "topknot/sparse.h"

namespace topknot::core {

/// bits(|x|): as integers these are in order of magnitude, infinity above every number
/// and NaN above infinity, so one comparison finds what is large and what is not finite.
constexpr std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
}
inline constexpr std::uint32_t kInfinityBits = 0x7F800000;

/// The smallest magnitude_bits() that reach `threshold`; for NaN as for infinity.
constexpr std::uint32_t floor_of(float threshold) {
  if (threshold > 0) return magnitude_bits(threshold);
  return threshold <= 0 ? 0 : kInfinityBits;
}

/// How many coordinates sweep_block() takes at most.
inline constexpr std::size_t kSweepBlock = 4096;

/// The coordinates of one block that reached the floor. They stay in the first-level
/// cache until they are appended to where they belong.
struct BlockHits {
  /// The positions of a word of 64 coordinates are written three at a time.
  static constexpr std::size_t kSlack = 3;

  std::size_t count;
  std::array<std::uint32_t, kSweepBlock + kSlack> index;
  std::array<float, kSweepBlock + kSlack> value;

  SparseView view() const {
    return {std::span(index).first(count), std::span(value).first(count)};
  }
};

/// Adds the block of `grad` that begins at `first` to that of `residual`, leaving in `grad`
/// what `residual` was (an empty `grad` adds nothing), and replaces `hits` with its coordinates
/// of magnitude_bits() >= `floor`, which is at most kInfinityBits. Stops in front of the first
/// nonfinite sum and returns how many coordinates were folded: the block's length when all
/// were. Throws ContractError when `grad` is neither empty nor as long as `residual`.
[[nodiscard]] std::size_t sweep_block(std::span<float> residual, std::span<float> grad,
                                      std::size_t first, std::uint32_t floor,
                                      BlockHits& hits);

/// Copies back what sweep_block() left in `grad`: exact, and only for what was folded.
void undo_fold(std::span<float> residual, std::span<const float> grad);

/// Sweeps all of `residual`, block by block. `take(hits, floor)` gets each block's hits and
/// says the floor of the next. When a sum is nonfinite, undoes the fold and returns false.
template <typename Take>
[[nodiscard]] bool sweep(std::span<float> residual, std::span<float> grad,
                         std::uint32_t floor, Take take) {
  BlockHits hits;
  for (std::size_t first = 0; first < residual.size(); first += kSweepBlock) {
    const std::size_t length = std::min(kSweepBlock, residual.size() - first);
    const std::size_t folded = sweep_block(residual, grad, first, floor, hits);
    if (folded < length) {
      if (!grad.empty())
        undo_fold(residual.first(first + folded), grad.first(first + folded));
      return false;
    }
    floor = take(hits, floor);
  }
  return true;
}

}  // namespace topknot::core

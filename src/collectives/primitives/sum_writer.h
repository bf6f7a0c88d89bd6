// SPDX-License-Identifier: Apache-2.0
//
// From the blocks that the ranks sent to the sum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/merge.h"
#include "topknot/sparse.h"

namespace topknot::collective {

/// Swaps into `sum` the sum of all blocks: neighbours are merged, then neighbouring
/// results, a fixed tree over the ranks. The blocks are used up.
void add_up(std::vector<Sparse>& blocks, Sparse& sum);

/// No sum of one value from each block is larger in magnitude; not finite when a value is
/// not.
float largest_sum(std::span<const Sparse> blocks);

/// Makes `sum` all zeros: it is so already, or it is the memory of `grad`, which is used up.
void clear_sum(std::span<const float> grad, std::span<float> sum);

/// Writes `pairs` into `sum`, which is all zeros or the memory of `grad`.
void write_sum(SparseView pairs, std::span<const float> grad, std::span<float> sum);

/// The same for `blocks`, of which no two share a coordinate. place_of(b) is a function from
/// positions of block b to where they are in the vector; `index` becomes all of these, block
/// by block.
template <typename PlaceOf>
void write_disjoint(std::span<const Sparse> blocks, std::span<const float> grad,
                    std::span<float> sum, std::vector<std::uint32_t>& index,
                    const PlaceOf& place_of) {
  clear_sum(grad, sum);
  std::size_t count = 0;
  for (const Sparse& block : blocks) count += block.size();
  index.resize(count);
  constexpr std::size_t kSlice = 4096;  // is written while its places are in the cache
  std::size_t done = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const SparseView block = blocks[b];
    const auto place = place_of(static_cast<int>(b));
    for (std::size_t first = 0; first < block.size(); first += kSlice) {
      const auto slice = block.slice(first, std::min(first + kSlice, block.size()));
      const auto placed = std::span(index).subspan(done, slice.size());
      std::ranges::transform(slice.index, placed.begin(), place);
      core::scatter({placed, slice.value}, sum);
      done += slice.size();
    }
  }
}

/// Adds sparse vectors up into a dense one and keeps the list of what it touched.
class SumWriter {
 public:
  /// Writes the sum of `blocks`, added in their order, so that every rank rounds alike.
  /// `sum` is all zeros, or the memory of `grad`. False, with nothing written, when the
  /// sum might not be finite: when the blocks' largest magnitudes add up to infinity.
  [[nodiscard]] bool add(std::span<const Sparse> blocks, std::span<const float> grad,
                         std::span<float> sum);
  /// The coordinates of the last sum, each once.
  std::span<const std::uint32_t> index() const noexcept { return index_; }

 private:
  std::vector<std::uint64_t> seen_;  // one bit a coordinate, all clear between calls
  std::vector<std::uint32_t> index_;
};

}  // namespace topknot::collective

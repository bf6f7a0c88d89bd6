// SPDX-License-Identifier: Apache-2.0
//
// From the blocks that the ranks sent to the sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

/// The same for `blocks`, of which no two share a coordinate. place(b, position) is where in
/// the vector a position of block b is; `index` becomes all of these.
template <typename Place>
void write_disjoint(std::span<const Sparse> blocks, std::span<const float> grad,
                    std::span<float> sum, std::vector<std::uint32_t>& index,
                    const Place& place) {
  clear_sum(grad, sum);
  index.clear();
  for (std::size_t b = 0; b < blocks.size(); ++b)
    for (std::size_t i = 0; i < blocks[b].size(); ++i) {
      index.push_back(place(static_cast<int>(b), blocks[b].index[i]));
      sum[index.back()] = blocks[b].value[i];
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

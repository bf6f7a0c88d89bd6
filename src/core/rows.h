// SPDX-License-Identifier: Apache-2.0
//
// The largest coordinates of every row of every tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/sweep.h"
#include "topknot/layout.h"
#include "topknot/sparse.h"

namespace topknot::core {

/// How much of each row is wanted: the density where it is known, else what k of n
/// coordinates say about it. k is n * density rounded down, so the density was anything
/// from k/n to less than (k+1)/n. The densest of these is taken: it gives a row of 1,000
/// its 10 coordinates at 1 %, whatever n is, where k/n would give it 9.
struct RowShare {
  std::uint64_t k = 0;
  std::uint64_t n = 1;  ///< more than 0; k is at most n
  double density = 0;   ///< in (0, 1]; 0: not known

  /// Of a row with `length` coordinates, at most n: length * density rounded down, but at
  /// least one; none for k == 0.
  std::uint64_t of(std::uint64_t length) const;
};

/// Sees each tensor of a bucket as [outer, length, stride]: the first extent, the second,
/// and the product of the others. A row is `length` coordinates that are `stride` apart;
/// a tensor of one dimension or none is a single row. What it keeps from step to step
/// changes the time a step takes, never its result.
class Rows {
 public:
  explicit Rows(const Layout& layout);

  /// The length of the vectors it is for.
  std::uint64_t size() const { return size_; }
  /// How many coordinates select() gives: RowShare::of() each row.
  std::size_t count(std::size_t k, double density = 0) const;

  /// As Compressor::select; `residual` is size() long. Ties go to the lower index.
  [[nodiscard]] bool select(std::span<float> residual, std::span<float> grad,
                            std::size_t k, Sparse& out, double density = 0);

 private:
  struct Grid {
    std::uint64_t offset;
    std::uint64_t outer;
    std::uint64_t length;
    std::uint64_t stride;
    float level = 0;      // about what the smallest of a row's largest has been lately
    float slack = 0.25F;  // candidates are what reaches (1 - slack) * level
  };

  bool fold_up_to(std::uint64_t end, std::span<float> residual, std::span<float> grad);
  void take_row(std::span<float> row, std::uint64_t offset, std::size_t count, Grid& grid,
                Sparse& out);
  void take_block(std::span<float> block, std::uint64_t offset, std::size_t count,
                  Grid& grid, Sparse& out);
  void compressor(std::span<float> row, std::size_t count, Grid& grid);
  static void learn(float level, std::size_t count, std::size_t listed, Grid& grid);
  void list(std::span<float> row, float floor);

  std::vector<Grid> grids_;
  std::uint64_t size_;
  std::uint64_t folded_ = 0;
  std::vector<std::uint32_t> picked_;  // positions in the row, in order
  std::vector<std::uint64_t> keys_;    // of a row's candidates, in order of position
  std::vector<std::uint64_t> ranked_;
  std::vector<float> columns_;  // some columns of a block, one after the other
  std::vector<std::uint32_t> places_;
  BlockHits hits_;
};

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "topknot/sparse.h"

namespace topknot::collective {

/// Who owns which coordinate of [0, n), and where it lies among the owner's: block-cyclic,
/// with the owners moved on by `turn`. The order of coordinates is that of their places.
class CyclicOwnership {
 public:
  CyclicOwnership(std::uint64_t n, int ranks, std::uint64_t turn)
      : n_(n),
        ranks_(static_cast<std::uint32_t>(ranks)),
        turn_(static_cast<std::uint32_t>(turn % ranks_)) {
    // A power of two, so that the divisions are shifts; small vectors get smaller blocks,
    // so that every rank owns some.
    const std::uint64_t block =
        std::clamp<std::uint64_t>(n / (std::uint64_t{16} * ranks_), 1, 256);
    block_bits_ = static_cast<int>(std::bit_width(block)) - 1;
  }

  /// How many coordinates `owner` has.
  std::uint64_t size(int owner) const;

  /// Replaces parts[owner] with the owner's part of `pairs`, by place.
  void deal(SparseView pairs, std::vector<Sparse>& parts) const;

  /// From places back to coordinates.
  class Outside {
   public:
    std::uint32_t operator()(std::uint32_t place) const {
      const std::uint32_t row = place >> block_bits_;
      return place + ((row * others_ + slot_) << block_bits_);
    }

   private:
    friend CyclicOwnership;
    Outside(std::uint32_t others, std::uint32_t slot, int block_bits)
        : others_(others), slot_(slot), block_bits_(block_bits) {}
    std::uint32_t others_;  // blocks of a row that are not the owner's
    std::uint32_t slot_;    // those of them before the owner's
    int block_bits_;
  };
  Outside outside(int owner) const { return {ranks_ - 1, slot(owner), block_bits_}; }

 private:
  std::uint32_t slot(int owner) const {
    return (static_cast<std::uint32_t>(owner) + ranks_ - turn_) % ranks_;
  }
  void deal_blocks(SparseView pairs, std::vector<Sparse>& parts) const;
  void deal_singly(SparseView pairs, std::vector<Sparse>& parts) const;
  template <typename Run>
  void for_each_run(std::span<const std::uint32_t> index, Run run) const;

  std::uint64_t n_;
  std::uint32_t ranks_;
  std::uint32_t turn_;
  int block_bits_;
};

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/sum_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace topknot::collective {

void add_up(std::vector<Sparse>& blocks, Sparse& sum) {
  for (std::size_t width = 1; width < blocks.size(); width *= 2)
    for (std::size_t i = 0; i + width < blocks.size(); i += 2 * width) {
      core::add(blocks[i], blocks[i + width], sum);
      std::swap(blocks[i], sum);
    }
  std::swap(sum, blocks[0]);
}

// Magnitudes are compared as bit patterns: eight at a time, and NaN is the largest.
float largest_sum(std::span<const Sparse> blocks) {
  float sum = 0;
  for (const Sparse& block : blocks) {
    std::uint32_t largest = 0;
    for (const float value : block.value)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
    sum += std::bit_cast<float>(largest);
  }
  return sum;
}

void clear_sum(std::span<const float> grad, std::span<float> sum) {
  if (sum.data() == grad.data()) std::fill(sum.begin(), sum.end(), 0.0F);
}

void write_sum(SparseView pairs, std::span<const float> grad, std::span<float> sum) {
  clear_sum(grad, sum);
  core::scatter(pairs, sum);
}

bool SumWriter::add(std::span<const Sparse> blocks, std::span<const float> grad,
                    std::span<float> sum) {
  if (!std::isfinite(largest_sum(blocks))) return false;
  clear_sum(grad, sum);
  if (blocks.size() == 1) {
    index_.assign(blocks[0].index.begin(), blocks[0].index.end());
    core::scatter_add(blocks[0], sum);
    return true;
  }
  seen_.resize(sum.size() / 64 + 1);
  index_.clear();
  for (const Sparse& block : blocks) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::uint32_t position = block.index[i];
      std::uint64_t& word = seen_[position / 64];
      const std::uint64_t bit = std::uint64_t{1} << (position % 64);
      if ((word & bit) == 0) index_.push_back(position);
      word |= bit;
      sum[position] += block.value[i];
    }
  }
  for (const std::uint32_t position : index_) seen_[position / 64] = 0;
  return true;
}

}  // namespace topknot::collective

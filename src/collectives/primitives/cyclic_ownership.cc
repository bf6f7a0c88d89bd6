// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/cyclic_ownership.h"

namespace topknot::collective {

std::uint64_t CyclicOwnership::size(int owner) const {
  const std::uint64_t block = std::uint64_t{1} << block_bits_;
  const std::uint64_t rows = n_ / (block * ranks_);
  const std::uint64_t rest = n_ - rows * block * ranks_;
  const std::uint64_t before = slot(owner) * block;
  return rows * block + (rest > before ? std::min(rest - before, block) : 0);
}

// Calls run(block, first, last) for the pairs [first, last) of every block that has some.
template <typename Run>
void CyclicOwnership::for_each_run(std::span<const std::uint32_t> index, Run run) const {
  for (std::size_t first = 0; first < index.size();) {
    const std::uint32_t block = index[first] >> block_bits_;
    std::size_t last = first + 1;
    while (last < index.size() && index[last] >> block_bits_ == block) ++last;
    run(block, first, last);
    first = last;
  }
}

// Counted first, so that every part is sized once. All pairs of a block move alike, so there
// are divisions for each block only.
void CyclicOwnership::deal(SparseView pairs, std::vector<Sparse>& parts) const {
  struct Next {
    std::uint32_t* index;
    float* value;
  };
  const auto owner = [&](std::uint32_t block) {
    return (std::uint64_t{block} + turn_) % ranks_;
  };
  std::vector<std::size_t> count(ranks_);
  for_each_run(pairs.index,
               [&](std::uint32_t block, std::size_t first, std::size_t last) {
                 count[owner(block)] += last - first;
               });
  parts.resize(ranks_);
  std::vector<Next> next(ranks_);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    parts[r].resize(count[r]);
    next[r] = {parts[r].index.data(), parts[r].value.data()};
  }
  for_each_run(pairs.index, [&](std::uint32_t block, std::size_t first,
                                std::size_t last) {
    const std::uint32_t before = (block - block / ranks_) << block_bits_;  // of others
    Next& to = next[owner(block)];
    for (std::size_t i = first; i < last; ++i) *to.index++ = pairs.index[i] - before;
    to.value = std::copy(pairs.value.data() + first, pairs.value.data() + last, to.value);
  });
}

}  // namespace topknot::collective

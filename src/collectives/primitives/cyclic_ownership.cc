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

// Counted first, so that every part is sized once. Where a block has many of the pairs, they
// move together; where it has few, its loop would end after one or two of them, which no processor
// foresees, and every pair moves by itself.
void CyclicOwnership::deal(SparseView pairs, std::vector<Sparse>& parts) const {
  const std::uint64_t many = n_ >> (block_bits_ > 3 ? block_bits_ - 3 : 0);
  parts.resize(ranks_);
  pairs.size() > many ? deal_blocks(pairs, parts) : deal_singly(pairs, parts);
}

// All pairs of a block move alike, so there are divisions for each block only.
void CyclicOwnership::deal_blocks(SparseView pairs, std::vector<Sparse>& parts) const {
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

// A block's row is block / ranks_, by a product: exact, since block * ranks_ is below 2^63.
void CyclicOwnership::deal_singly(SparseView pairs, std::vector<Sparse>& parts) const {
  __extension__ using Product = unsigned __int128;
  const std::uint64_t factor = (std::uint64_t{1} << 63) / ranks_ + 1;
  const auto row = [&](std::uint32_t block) {
    return static_cast<std::uint32_t>((Product{2} * block * factor) >> 64);
  };
  const auto owner = [&](std::uint32_t block) {
    const std::uint32_t turned = block - row(block) * ranks_ + turn_;
    return turned < ranks_ ? turned : turned - ranks_;
  };
  std::vector<std::size_t> next(ranks_);  // of a part, how many are there
  for (const std::uint32_t position : pairs.index) ++next[owner(position >> block_bits_)];
  std::vector<std::uint32_t*> index(ranks_);
  std::vector<float*> value(ranks_);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    parts[r].resize(next[r]);
    index[r] = parts[r].index.data();
    value[r] = parts[r].value.data();
    next[r] = 0;
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::uint32_t block = pairs.index[i] >> block_bits_;
    const std::uint32_t to = owner(block);
    const std::size_t at = next[to]++;
    index[to][at] = pairs.index[i] - ((block - row(block)) << block_bits_);
    value[to][at] = pairs.value[i];
  }
}

}  // namespace topknot::collective

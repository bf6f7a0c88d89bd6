// SPDX-License-Identifier: Apache-2.0
//
// Which of two positions comes first is a coin toss to the branch predictor, so the
// merges do not branch on it: each round writes one entry and moves on in one input or
// both, by comparisons used as numbers.
#include "core/merge.h"

#include <algorithm>
#include <bit>

namespace topknot::core {

namespace {

// `x` where `there`, else -0.0, which added to any number leaves it as it was.
float if_there(bool there, float x) {
  const std::uint32_t mask = 0 - static_cast<std::uint32_t>(there);
  constexpr std::uint32_t kNothing = 0x80000000;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) & mask) |
                              (kNothing & ~mask));
}

}  // namespace

void add(SparseView a, SparseView b, Sparse& out) {
  out.resize(a.size() + b.size());
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t n = 0;
  for (; i < a.size() && j < b.size(); ++n) {
    const std::uint32_t at_a = a.index[i];
    const std::uint32_t at_b = b.index[j];
    const bool from_a = at_a <= at_b;
    const bool from_b = at_b <= at_a;
    out.index[n] = std::min(at_a, at_b);
    out.value[n] = if_there(from_a, a.value[i]) + if_there(from_b, b.value[j]);
    i += from_a ? 1 : 0;
    j += from_b ? 1 : 0;
  }
  out.resize(n);
  out.append(a.slice(i, a.size()));
  out.append(b.slice(j, b.size()));
}

void intersect(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
               std::vector<std::uint32_t>& out) {
  // One more than can be in both: each round writes before it knows.
  out.resize(std::min(a.size(), b.size()) + 1);
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t n = 0;
  while (i < a.size() && j < b.size()) {
    const std::uint32_t at_a = a[i];
    const std::uint32_t at_b = b[j];
    out[n] = at_a;
    n += at_a == at_b ? 1 : 0;
    i += at_a <= at_b ? 1 : 0;
    j += at_b <= at_a ? 1 : 0;
  }
  out.resize(n);
}

void split(std::span<const std::uint32_t> index, std::span<const std::uint64_t> cuts,
           std::vector<std::size_t>& at) {
  at.resize(cuts.size());
  auto begin = index.begin();
  for (std::size_t j = 0; j < cuts.size(); ++j) {
    begin = std::lower_bound(begin, index.end(), cuts[j]);
    at[j] = static_cast<std::size_t>(begin - index.begin());
  }
}

void scatter_add(SparseView pairs, std::span<float> dense) {
  for (std::size_t i = 0; i < pairs.size(); ++i) dense[pairs.index[i]] += pairs.value[i];
}

void erase(std::span<const std::uint32_t> index, std::span<float> dense) {
  for (const std::uint32_t i : index) dense[i] = 0;
}

void gather(std::span<const float> dense, std::span<const std::uint32_t> index,
            std::span<float> out) {
  for (std::size_t i = 0; i < index.size(); ++i) out[i] = dense[index[i]];
}

}  // namespace topknot::core

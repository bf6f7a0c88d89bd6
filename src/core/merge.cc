// SPDX-License-Identifier: Apache-2.0
//
// Which of two positions comes first is a coin toss to the branch predictor, so the
// merges do not branch on it: each round writes one entry and moves on in one input or
// both, by comparisons that are numbers. They are spelled as arithmetic because from `<=`
// gcc makes branches again, which takes twice as long.
#include "core/merge.h"

#include <algorithm>
#include <bit>
#include <string>

#include "topknot/error.h"

namespace topknot::core {

namespace {

// 1 when a <= b, else 0.
std::uint64_t not_after(std::uint32_t a, std::uint32_t b) {
  return (static_cast<std::uint64_t>(a) - b - 1) >> 63;
}

// `x` when `there` is 1; when it is 0, -0.0, which leaves what it is added to as it was.
float if_there(std::uint64_t there, float x) {
  constexpr std::uint32_t kNothing = 0x80000000;
  const std::uint32_t mask = 0 - static_cast<std::uint32_t>(there);
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
    const std::uint64_t from_a = not_after(at_a, at_b);
    const std::uint64_t from_b = not_after(at_b, at_a);
    out.index[n] = std::min(at_a, at_b);
    out.value[n] = if_there(from_a, a.value[i]) + if_there(from_b, b.value[j]);
    i += from_a;
    j += from_b;
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
    const std::uint64_t from_a = not_after(a[i], b[j]);
    const std::uint64_t from_b = not_after(b[j], a[i]);
    out[n] = a[i];
    n += from_a & from_b;
    i += from_a;
    j += from_b;
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

void drop_zeros(Sparse& pairs) {
  keep_if(pairs, [](float value) { return value != 0; });
}

void scatter_add(SparseView pairs, std::span<float> dense) {
  for (std::size_t i = 0; i < pairs.size(); ++i) dense[pairs.index[i]] += pairs.value[i];
}

void erase(std::span<const std::uint32_t> index, std::span<float> dense) {
  for (const std::uint32_t i : index) dense[i] = 0;
}

void gather(std::span<const float> dense, std::span<const std::uint32_t> index,
            std::span<float> out) {
  if (out.size() != index.size())
    throw ContractError("Values of " + std::to_string(index.size()) +
                        " positions were to go into " + std::to_string(out.size()) + ".");
  for (std::size_t i = 0; i < index.size(); ++i) out[i] = dense[index[i]];
}

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
//
// Which of two positions comes first is a coin toss to the branch predictor, so the
// merges do not branch on it: each round writes one entry and moves on in one input or
// both, by comparisons that are numbers. They are spelled as arithmetic because from `<=`
// gcc makes branches again, which takes twice as long.
#include "core/merge.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "topknot/error.h"

namespace topknot::core {

namespace {

constexpr std::size_t kWindow = 16384;

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

// Calls change(dense[index[i]], i) for every i. The lines are asked for in time: positions
// that leap from block to block are beyond the processor's own prefetching.
template <typename Change>
void for_each_ahead(std::span<const std::uint32_t> index, std::span<float> dense,
                    Change change) {
  constexpr std::size_t kAhead = 64;
  const std::size_t sure = index.size() - std::min(kAhead, index.size());
  std::size_t i = 0;
  for (; i < sure; ++i) {
    __builtin_prefetch(dense.data() + index[i + kAhead], 1);
    change(dense[index[i]], i);
  }
  for (; i < index.size(); ++i) change(dense[index[i]], i);
}

void require_as_many(std::span<const std::uint32_t> index, std::span<float> out) {
  if (out.size() != index.size())
    throw ContractError("Values of " + std::to_string(index.size()) +
                        " positions were to go into " + std::to_string(out.size()) + ".");
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

// One window of positions at a time: those of b are marked, those of a look whether they are.
// The loops end where a window does, and so the processor can tell how they go on.
void common_places(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                   std::vector<std::uint32_t>& places) {
  std::array<std::uint8_t, kWindow> marked = {};
  places.resize(std::min(a.size(), b.size()) + 1);  // each round writes before it knows
  std::uint32_t* const out = places.data();
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t n = 0;
  while (i < a.size()) {
    const std::uint32_t begin = a[i];
    while (j < b.size() && b[j] < begin) ++j;
    const std::size_t first = j;
    for (; j < b.size() && b[j] - begin < kWindow; ++j) marked[b[j] - begin] = 1;
    if (j == b.size() && j == first) break;
    for (; i < a.size() && a[i] - begin < kWindow; ++i) {
      out[n] = static_cast<std::uint32_t>(i);
      n += marked[a[i] - begin];
    }
    for (std::size_t mark = first; mark < j; ++mark) marked[b[mark] - begin] = 0;
  }
  places.resize(n);
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

void scatter(SparseView pairs, std::span<float> dense) {
  for_each_ahead(pairs.index, dense,
                 [&](float& x, std::size_t i) { x = pairs.value[i]; });
}

void scatter_add(SparseView pairs, std::span<float> dense) {
  for_each_ahead(pairs.index, dense,
                 [&](float& x, std::size_t i) { x += pairs.value[i]; });
}

void erase(std::span<const std::uint32_t> index, std::span<float> dense) {
  for_each_ahead(index, dense, [](float& x, std::size_t) { x = 0; });
}

void divide(std::span<const std::uint32_t> index, float divisor, std::span<float> dense,
            std::span<float> out) {
  if (out.empty())
    return for_each_ahead(index, dense, [&](float& x, std::size_t) { x /= divisor; });
  require_as_many(index, out);
  for_each_ahead(index, dense, [&](float& x, std::size_t i) { out[i] = x /= divisor; });
}

void gather(std::span<const float> dense, std::span<const std::uint32_t> index,
            std::span<float> out) {
  require_as_many(index, out);
  for (std::size_t i = 0; i < index.size(); ++i) out[i] = dense[index[i]];
}

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
//
// The sweep is bound by memory, so the work on a coordinate must hide behind its 16
// bytes of traffic: about a cycle. Two things see to that. Nothing branches on the data:
// 64 comparisons become one word of bits, and the positions of a word's first three bits
// are written whether they are there or not (at a density of 1 % a fourth is rare). And
// the next lines are asked for by hand, because the processor's own prefetching starts
// anew at each page of 4 KiB: without that the sweep takes a fifth longer.
//
// hn::Compress would also do, but gcc 12 copies its table to the stack for each call.
#include "core/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "core/sweep.h"
#include "topknot/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/select.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace topknot::core {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that four vectors fit into a word of 64 coordinates.
using FloatTag = hn::CappedTag<float, 16>;
using BitsTag = hn::CappedTag<std::int32_t, 16>;
using FloatVec = hn::Vec<FloatTag>;
using BitsVec = hn::Vec<BitsTag>;

constexpr std::size_t kWord = 64;

constexpr std::size_t kLine = 16;    // coordinates in a cache line
constexpr std::size_t kAhead = 512;  // how far to prefetch: half a page

// The end of a block, and the stretch in which a sum is not finite: one by one.
template <bool kFold>
std::size_t sweep_singly(float* residual, float* grad, std::size_t begin, std::size_t end,
                         std::uint32_t first, std::uint32_t floor, BlockHits& hits) {
  for (std::size_t i = begin; i < end; ++i) {
    const float sum = kFold ? residual[i] + grad[i] : residual[i];
    const std::uint32_t bits = magnitude_bits(sum);
    if (bits >= kInfinityBits) return i;
    if (kFold) {
      grad[i] = residual[i];
      residual[i] = sum;
    }
    if (bits >= floor) {
      hits.index[hits.count] = first + static_cast<std::uint32_t>(i);
      hits.value[hits.count] = sum;
      ++hits.count;
    }
  }
  return end;
}

template <bool kFold>
HWY_INLINE FloatVec sum_with(FloatTag d, FloatVec a, const float* grad) {
  return kFold ? hn::Add(a, hn::LoadU(d, grad)) : a;
}

template <class Mask>
HWY_INLINE std::uint64_t bits_of(BitsTag d, Mask mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  std::uint64_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

// Folds 64 coordinates and leaves their old values in `grad`; bit i of `word` says that the
// i-th reached the floor. `below` is the largest magnitude that does not. Returns how many
// were folded before the first group with a nonfinite sum.
template <bool kFold>
HWY_INLINE std::size_t fold_word(float* residual, float* grad, BitsVec below,
                                 std::uint64_t& word) {
  const FloatTag df;
  const BitsTag di;
  const std::size_t N = hn::Lanes(df);
  const BitsVec largest = hn::Set(di, static_cast<std::int32_t>(kInfinityBits - 1));
  word = 0;
  for (std::size_t j = 0; j < kWord; j += 4 * N) {
    const FloatVec a0 = hn::LoadU(df, residual + j);
    const FloatVec a1 = hn::LoadU(df, residual + j + N);
    const FloatVec a2 = hn::LoadU(df, residual + j + 2 * N);
    const FloatVec a3 = hn::LoadU(df, residual + j + 3 * N);
    const FloatVec s0 = sum_with<kFold>(df, a0, grad + j);
    const FloatVec s1 = sum_with<kFold>(df, a1, grad + j + N);
    const FloatVec s2 = sum_with<kFold>(df, a2, grad + j + 2 * N);
    const FloatVec s3 = sum_with<kFold>(df, a3, grad + j + 3 * N);
    const BitsVec b0 = hn::BitCast(di, hn::Abs(s0));
    const BitsVec b1 = hn::BitCast(di, hn::Abs(s1));
    const BitsVec b2 = hn::BitCast(di, hn::Abs(s2));
    const BitsVec b3 = hn::BitCast(di, hn::Abs(s3));
    const BitsVec max = hn::Max(hn::Max(b0, b1), hn::Max(b2, b3));
    if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Gt(max, largest)))) return j;
    if (kFold) {
      hn::StoreU(s0, df, residual + j);
      hn::StoreU(s1, df, residual + j + N);
      hn::StoreU(s2, df, residual + j + 2 * N);
      hn::StoreU(s3, df, residual + j + 3 * N);
      hn::StoreU(a0, df, grad + j);
      hn::StoreU(a1, df, grad + j + N);
      hn::StoreU(a2, df, grad + j + 2 * N);
      hn::StoreU(a3, df, grad + j + 3 * N);
    }
    const std::uint64_t group = bits_of(di, hn::Gt(b0, below)) |
                                bits_of(di, hn::Gt(b1, below)) << N |
                                bits_of(di, hn::Gt(b2, below)) << (2 * N) |
                                bits_of(di, hn::Gt(b3, below)) << (3 * N);
    word |= group << j;
  }
  return kWord;
}

// Appends the positions of the bits of `word`, which begins at position `at`.
HWY_INLINE void append_positions(std::uint64_t word, std::uint32_t at, BlockHits& hits) {
  std::uint32_t* next = hits.index.data() + hits.count;
  hits.count += static_cast<std::size_t>(std::popcount(word));
  for (std::size_t j = 0; j < BlockHits::kSlack; ++j) {
    *next++ = at + static_cast<std::uint32_t>(std::countr_zero(word));
    word &= word - 1;
  }
  while (HWY_UNLIKELY(word != 0)) {
    *next++ = at + static_cast<std::uint32_t>(std::countr_zero(word));
    word &= word - 1;
  }
}

template <bool kFold>
std::size_t sweep_words(float* residual, float* grad, std::size_t n, std::uint32_t first,
                        std::uint32_t floor, BlockHits& hits) {
  const BitsVec below = hn::Set(BitsTag(), static_cast<std::int32_t>(floor) - 1);
  hits.count = 0;
  std::size_t i = 0;
  for (; i + kWord <= n; i += kWord) {
    for (std::size_t j = 0; j < kWord; j += kLine) {
      hwy::Prefetch(residual + i + kAhead + j);
      if (kFold) hwy::Prefetch(grad + i + kAhead + j);
    }
    std::uint64_t word;
    const std::size_t folded = fold_word<kFold>(residual + i, grad + i, below, word);
    if (HWY_UNLIKELY(folded < kWord)) {
      i += folded;
      break;
    }
    append_positions(word, first + static_cast<std::uint32_t>(i), hits);
  }
  for (std::size_t h = 0; h < hits.count; ++h) {
    hits.value[h] = residual[hits.index[h] - first];
  }
  return sweep_singly<kFold>(residual, grad, i, n, first, floor, hits);
}

std::size_t fold_block(float* residual, float* grad, std::size_t n, std::uint32_t first,
                       std::uint32_t floor, BlockHits& hits) {
  return sweep_words<true>(residual, grad, n, first, floor, hits);
}

std::size_t scan_block(float* residual, std::size_t n, std::uint32_t first,
                       std::uint32_t floor, BlockHits& hits) {
  return sweep_words<false>(residual, residual, n, first, floor, hits);
}

std::size_t count_at_least(const float* x, std::size_t n, float threshold) {
  const FloatTag d;
  const FloatVec least = hn::Set(d, threshold);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    count += hn::CountTrue(d, hn::Ge(hn::Abs(hn::LoadU(d, x + i)), least));
  }
  for (; i < n; ++i) count += std::abs(x[i]) >= threshold ? 1 : 0;
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace topknot::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace topknot::core {

HWY_EXPORT(fold_block);
HWY_EXPORT(scan_block);
HWY_EXPORT(count_at_least);

std::size_t sweep_block(std::span<float> residual, std::span<float> grad,
                        std::size_t first, std::uint32_t floor, BlockHits& hits) {
  if (first > residual.size() || (!grad.empty() && grad.size() != residual.size()))
    throw ContractError("A vector of " + std::to_string(residual.size()) +
                        " coordinates was swept from " + std::to_string(first) +
                        " on with a gradient of " + std::to_string(grad.size()) + ".");
  const std::size_t n = std::min(kSweepBlock, residual.size() - first);
  const auto position = static_cast<std::uint32_t>(first);
  if (grad.empty()) {
    return HWY_DYNAMIC_DISPATCH(scan_block)(residual.data() + first, n, position, floor,
                                            hits);
  }
  return HWY_DYNAMIC_DISPATCH(fold_block)(residual.data() + first, grad.data() + first, n,
                                          position, floor, hits);
}

bool fold(std::span<float> residual, std::span<float> grad) {
  return sweep(residual, grad, kInfinityBits,
               [](const BlockHits&, std::uint32_t floor) { return floor; });
}

void undo_fold(std::span<float> residual, std::span<const float> grad) {
  std::copy(grad.begin(), grad.end(), residual.begin());
}

bool fold_and_select(std::span<float> residual, std::span<float> grad, float threshold,
                     Sparse& out) {
  out.clear();
  const bool finite = sweep(residual, grad, floor_of(threshold),
                            [&](const BlockHits& hits, std::uint32_t floor) {
                              out.append(hits.view());
                              return floor;
                            });
  if (!finite) out.clear();
  return finite;
}

std::size_t count_at_least(std::span<const float> x, float threshold) {
  return HWY_DYNAMIC_DISPATCH(count_at_least)(x.data(), x.size(), threshold);
}

}  // namespace topknot::core
#endif  // HWY_ONCE

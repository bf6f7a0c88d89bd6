// SPDX-License-Identifier: Apache-2.0
#include "core/front.h"

#include <algorithm>
#include <bit>

#include "core/sweep.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/front.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace topknot::core {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Only from AVX-512 on is Compress() an instruction; before that it is a table, which gcc 12
// copies to the stack for each call. A vector is stored whole: what is behind the last lane
// that counts is overwritten by the next, or lies where everything was read already.
#undef TOPKNOT_COMPRESS
#if HWY_TARGET <= HWY_AVX3
#define TOPKNOT_COMPRESS 1
#else
#define TOPKNOT_COMPRESS 0
#endif

using BitsTag = hn::CappedTag<std::int32_t, kCopySlack>;
using UnsignedTag = hn::CappedTag<std::uint32_t, kCopySlack>;

// Moves those of the pairs [first, last) that reach `floor` to [to, ...), where `to` is at most
// `first`; returns the end.
std::size_t move_reaching(std::uint32_t* index, float* value, std::size_t first,
                          std::size_t last, std::uint32_t floor, std::size_t to) {
  std::size_t i = first;
#if TOPKNOT_COMPRESS
  const BitsTag di;
  const UnsignedTag du;
  const auto below = hn::Set(di, static_cast<std::int32_t>(floor - 1));
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  auto* const bits = reinterpret_cast<std::int32_t*>(value);
  for (; i + hn::Lanes(di) <= last; i += hn::Lanes(di)) {
    const auto v = hn::LoadU(di, bits + i);
    const auto place = hn::LoadU(du, index + i);
    const auto stays = hn::Gt(hn::And(v, magnitude), below);
    hn::StoreU(hn::Compress(v, stays), di, bits + to);
    hn::StoreU(hn::Compress(place, hn::RebindMask(du, stays)), du, index + to);
    to += hn::CountTrue(di, stays);
  }
#endif
  for (; i < last; ++i) {
    const float v = value[i];
    value[to] = v;
    index[to] = index[i];
    to += magnitude_bits(v) >= floor ? 1 : 0;
  }
  return to;
}

std::size_t copy_between(const float* value, std::size_t n, std::uint32_t begin,
                         std::uint32_t width, float* out) {
  std::size_t i = 0;
  std::size_t count = 0;
#if TOPKNOT_COMPRESS
  const UnsignedTag du;
  const hn::Repartition<float, UnsignedTag> df;
  const auto low = hn::Set(du, begin);
  const auto all = hn::Set(du, width);
  for (; i + hn::Lanes(du) <= n; i += hn::Lanes(du)) {
    const auto magnitude = hn::Abs(hn::LoadU(df, value + i));
    const auto stays = hn::Lt(hn::Sub(hn::BitCast(du, magnitude), low), all);
    hn::StoreU(hn::Compress(magnitude, hn::RebindMask(df, stays)), df, out + count);
    count += hn::CountTrue(du, stays);
  }
#endif
  for (; i < n; ++i) {
    const std::uint32_t bits = magnitude_bits(value[i]);
    out[count] = std::bit_cast<float>(bits);
    count += bits - begin < width ? 1 : 0;
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace topknot::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace topknot::core {

HWY_EXPORT(move_reaching);
HWY_EXPORT(copy_between);

namespace {

// Where in [first, last) the `ties` first of the magnitudes that equal `bits` end; takes from
// `ties` what is found.
std::size_t end_of_ties(std::span<const float> value, std::size_t first, std::size_t last,
                        std::uint32_t bits, std::uint64_t& ties) {
  std::uint32_t equal = 0;
  for (std::size_t i = first; i < last; ++i)
    equal += magnitude_bits(value[i]) == bits ? 1 : 0;
  if (equal < ties) {
    ties -= equal;
    return last;
  }
  std::size_t end = first;
  for (; ties > 0; ++end) ties -= magnitude_bits(value[end]) == bits ? 1 : 0;
  return end;
}

}  // namespace

// A chunk at a time, so that counting the ties brings it into the cache for the move.
void keep_above(Sparse& pairs, std::uint32_t bits, std::uint64_t ties) {
  constexpr std::size_t kChunk = 1024;
  std::size_t kept = 0;
  for (std::size_t first = 0; first < pairs.size();) {
    std::size_t last = std::min(first + kChunk, pairs.size());
    const std::uint32_t floor = ties > 0 ? bits : bits + 1;
    if (ties > 0) last = end_of_ties(pairs.value, first, last, bits, ties);
    kept = HWY_DYNAMIC_DISPATCH(move_reaching)(pairs.index.data(), pairs.value.data(),
                                               first, last, floor, kept);
    first = last;
  }
  pairs.resize(kept);
}

std::size_t copy_between(std::span<const float> value, std::uint32_t begin,
                         std::uint32_t width, float* out) {
  return HWY_DYNAMIC_DISPATCH(copy_between)(value.data(), value.size(), begin, width,
                                            out);
}

}  // namespace topknot::core
#endif  // HWY_ONCE

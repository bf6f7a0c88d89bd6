// SPDX-License-Identifier: Apache-2.0
#include "core/stats.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/sweep.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/stats.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// This file is included once for each target; the lanes are the same for all.
#ifndef TOPKNOT_CORE_STATS_LANES_
#define TOPKNOT_CORE_STATS_LANES_
namespace topknot::core {

constexpr std::size_t kLanes = 16;

struct Lanes {
  alignas(64) double sum[kLanes] = {};
  alignas(64) double magnitude[kLanes] = {};
  alignas(64) double square[kLanes] = {};
  std::uint32_t max_bits = 0;  // magnitude_bits() of the largest
};

}  // namespace topknot::core
#endif  // TOPKNOT_CORE_STATS_LANES_

HWY_BEFORE_NAMESPACE();
namespace topknot::core {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DoubleTag = hn::CappedTag<double, kLanes / 2>;
using HalfTag = hn::Rebind<float, DoubleTag>;
using FloatTag = hn::CappedTag<float, kLanes>;
using DoubleVec = hn::Vec<DoubleTag>;

HWY_INLINE void add(const float* x, DoubleVec& sum, DoubleVec& magnitude,
                    DoubleVec& square) {
  const DoubleVec v = hn::PromoteTo(DoubleTag(), hn::LoadU(HalfTag(), x));
  sum = hn::Add(sum, v);
  magnitude = hn::Add(magnitude, hn::Abs(v));
  square = hn::Add(square, hn::Mul(v, v));
}

// Adds x[0, n), n a multiple of kLanes, two vectors of lanes at a time: six sums that do
// not wait for each other. The stretch is read for each pair of vectors, so it should fit
// the first-level cache.
void add_stretch(const float* x, std::size_t n, Lanes& lanes) {
  const DoubleTag d;
  const std::size_t N = hn::Lanes(d);
  for (std::size_t j = 0; j < kLanes; j += 2 * N) {
    DoubleVec sum0 = hn::Load(d, lanes.sum + j);
    DoubleVec sum1 = hn::Load(d, lanes.sum + j + N);
    DoubleVec magnitude0 = hn::Load(d, lanes.magnitude + j);
    DoubleVec magnitude1 = hn::Load(d, lanes.magnitude + j + N);
    DoubleVec square0 = hn::Load(d, lanes.square + j);
    DoubleVec square1 = hn::Load(d, lanes.square + j + N);
    for (std::size_t i = j; i < n; i += kLanes) {
      add(x + i, sum0, magnitude0, square0);
      add(x + i + N, sum1, magnitude1, square1);
    }
    hn::Store(sum0, d, lanes.sum + j);
    hn::Store(sum1, d, lanes.sum + j + N);
    hn::Store(magnitude0, d, lanes.magnitude + j);
    hn::Store(magnitude1, d, lanes.magnitude + j + N);
    hn::Store(square0, d, lanes.square + j);
    hn::Store(square1, d, lanes.square + j + N);
  }

  const FloatTag df;
  const hn::RebindToSigned<FloatTag> di;
  auto max = hn::Set(di, static_cast<std::int32_t>(lanes.max_bits));
  for (std::size_t i = 0; i < n; i += hn::Lanes(df)) {
    max = hn::Max(max, hn::BitCast(di, hn::Abs(hn::LoadU(df, x + i))));
  }
  lanes.max_bits = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, max)));
}

}  // namespace HWY_NAMESPACE
}  // namespace topknot::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace topknot::core {

HWY_EXPORT(add_stretch);

namespace {

constexpr std::size_t kStretch = 2048;

void add_one(float x, std::size_t lane, Lanes& lanes) {
  const double v = x;
  lanes.sum[lane] += v;
  lanes.magnitude[lane] += std::abs(v);
  lanes.square[lane] += v * v;
  lanes.max_bits = std::max(lanes.max_bits, magnitude_bits(x));
}

double in_order(const double (&lane)[kLanes]) {
  double total = 0;
  for (const double v : lane) total += v;
  return total;
}

}  // namespace

Moments moments(std::span<const float> x) {
  Lanes lanes;
  const std::size_t whole = x.size() - x.size() % kLanes;
  for (std::size_t i = 0; i < whole; i += kStretch) {
    HWY_DYNAMIC_DISPATCH(add_stretch)
    (x.data() + i, std::min(kStretch, whole - i), lanes);
  }
  for (std::size_t i = whole; i < x.size(); ++i) add_one(x[i], i - whole, lanes);
  return {in_order(lanes.sum), in_order(lanes.magnitude), in_order(lanes.square),
          std::bit_cast<float>(lanes.max_bits)};
}

}  // namespace topknot::core
#endif  // HWY_ONCE

// SPDX-License-Identifier: Apache-2.0
#include "core/magnitudes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/magnitudes.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// This file is included once for each target; these are the same for all.
#ifndef TOPKNOT_CORE_MAGNITUDES_ONCE_
#define TOPKNOT_CORE_MAGNITUDES_ONCE_
namespace topknot::core {

struct TailLanes {
  alignas(64) std::array<double, LogSum::kLanes> count;
  alignas(64) std::array<double, LogSum::kLanes> sum;
  alignas(64) std::array<double, LogSum::kLanes> square;
  alignas(64) std::array<float, LogSum::kLanes> smallest;
};

// For each set of lanes among eight their numbers, four bits each, lowest first.
constexpr std::array<std::uint32_t, 256> kLanesOf = [] {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t set = 0; set < table.size(); ++set) {
    std::uint32_t shift = 0;
    for (std::uint32_t lane = 0; lane < 8; ++lane) {
      if ((set >> lane & 1) == 0) continue;
      table[set] |= lane << shift;
      shift += 4;
    }
  }
  return table;
}();

}  // namespace topknot::core
#endif  // TOPKNOT_CORE_MAGNITUDES_ONCE_

HWY_BEFORE_NAMESPACE();
namespace topknot::core {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DoubleTag = hn::CappedTag<double, LogSum::kLanes / 2>;
using LongTag = hn::RebindToSigned<DoubleTag>;
using HalfTag = hn::Rebind<float, DoubleTag>;
using EightTag = hn::CappedTag<float, 8>;
using FloatTag = hn::CappedTag<float, LogSum::kLanes>;

// The numbers at x, with ones for zeros, whose logarithm is nothing. As doubles even the
// smallest floats are normal.
HWY_INLINE hn::Vec<DoubleTag> load_nonzero(const float* x) {
  const HalfTag d;
  const auto v = hn::LoadU(d, x);
  const auto is_zero = hn::Eq(v, hn::Zero(d));
  return hn::PromoteTo(DoubleTag(), hn::IfThenElse(is_zero, hn::Set(d, 1.0F), v));
}

// Multiplies the mantissa of `v` into `product` and adds its exponent.
HWY_INLINE void add_log(hn::Vec<DoubleTag> v, hn::Vec<DoubleTag>& product,
                        hn::Vec<LongTag>& exponent) {
  const DoubleTag d;
  const LongTag di;
  const hn::RebindToUnsigned<DoubleTag> du;
  const auto bits = hn::BitCast(du, hn::Abs(v));
  const auto biased = hn::BitCast(di, hn::ShiftRight<52>(bits));
  exponent = hn::Add(exponent, hn::Sub(biased, hn::Set(di, 1023)));
  const auto mantissa = hn::Or(hn::And(bits, hn::Set(du, (std::uint64_t{1} << 52) - 1)),
                               hn::BitCast(du, hn::Set(d, 1.0)));
  product = hn::Mul(product, hn::BitCast(d, mantissa));
}

// x[0, n) with n a multiple of the lanes. Four floats are multiplied before exponent and
// mantissa are told apart: that is still far from a double's range.
void add_logs(const float* x, std::size_t n, LogSum::Lanes& lanes) {
  const FloatTag df;
  for (std::size_t i = 0; i < n; i += hn::Lanes(df))
    lanes.zeros += hn::CountTrue(df, hn::Eq(hn::LoadU(df, x + i), hn::Zero(df)));
  const DoubleTag d;
  const LongTag di;
  constexpr std::size_t kStep = LogSum::kLanes;
  for (std::size_t j = 0; j < kStep; j += hn::Lanes(d)) {
    auto product = hn::Load(d, &lanes.product[j]);
    auto exponent = hn::Load(di, &lanes.exponent[j]);
    std::size_t i = 0;
    for (; i + 4 * kStep <= n; i += 4 * kStep) {
      const auto v0 = load_nonzero(x + i + j);
      const auto v1 = load_nonzero(x + i + j + kStep);
      const auto v2 = load_nonzero(x + i + j + 2 * kStep);
      const auto v3 = load_nonzero(x + i + j + 3 * kStep);
      add_log(hn::Mul(hn::Mul(v0, v1), hn::Mul(v2, v3)), product, exponent);
    }
    for (; i < n; i += kStep) add_log(load_nonzero(x + i + j), product, exponent);
    hn::Store(product, d, &lanes.product[j]);
    hn::Store(exponent, di, &lanes.exponent[j]);
  }
}

void add_magnitudes(const float* x, std::size_t n, double* sums) {
  const DoubleTag d;
  const std::size_t N = hn::Lanes(d);
  for (std::size_t j = 0; j < LogSum::kLanes; j += 2 * N) {
    auto sum0 = hn::LoadU(d, sums + j);
    auto sum1 = hn::LoadU(d, sums + j + N);
    for (std::size_t i = j; i < n; i += LogSum::kLanes) {
      const HalfTag dh;
      sum0 = hn::Add(sum0, hn::PromoteTo(d, hn::Abs(hn::LoadU(dh, x + i))));
      sum1 = hn::Add(sum1, hn::PromoteTo(d, hn::Abs(hn::LoadU(dh, x + i + N))));
    }
    hn::StoreU(sum0, d, sums + j);
    hn::StoreU(sum1, d, sums + j + N);
  }
}

// Moves the lanes of `v` that `stays` names to the front. Highway's Compress() does that
// too, but gcc 12 copies its table to the stack each time.
template <class Vec, class Mask>
HWY_INLINE Vec to_the_front(EightTag d, Vec v, Mask stays, std::size_t& count) {
  const hn::RebindToUnsigned<EightTag> du;
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(d, stays, bits);
  count = static_cast<std::size_t>(std::popcount(bits[0]));
  const auto shifts = hn::Mul(hn::Iota(du, 0), hn::Set(du, 4));
  const auto nibbles = hn::Shr(hn::Set(du, kLanesOf[bits[0]]), shifts);
  const auto lanes =
      hn::And(nibbles, hn::Set(du, static_cast<std::uint32_t>(hn::Lanes(d) - 1)));
  return hn::TableLookupLanes(v, hn::IndicesFromVec(d, lanes));
}

// Writes the magnitudes of x[0, n) that reach `threshold` to `out`, which has room for
// eight more than n, and returns how many.
std::size_t compress(const float* x, std::size_t n, float threshold, float* out) {
  const EightTag d;
  const auto least = hn::Set(d, threshold);
  std::size_t total = 0;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto magnitude = hn::Abs(hn::LoadU(d, x + i));
    std::size_t count = 0;
    hn::StoreU(to_the_front(d, magnitude, hn::Ge(magnitude, least), count), d,
               out + total);
    total += count;
  }
  for (; i < n; ++i) {
    out[total] = std::abs(x[i]);
    total += out[total] >= threshold ? 1 : 0;
  }
  return total;
}

void add_tail(const float* x, std::size_t n, float threshold, TailLanes& lanes) {
  const DoubleTag d;
  const HalfTag dh;
  const auto least = hn::Set(dh, threshold);
  const auto infinity = hn::Set(dh, std::numeric_limits<float>::infinity());
  for (std::size_t j = 0; j < LogSum::kLanes; j += hn::Lanes(d)) {
    auto count = hn::Load(d, &lanes.count[j]);
    auto sum = hn::Load(d, &lanes.sum[j]);
    auto square = hn::Load(d, &lanes.square[j]);
    auto smallest = hn::Load(dh, &lanes.smallest[j]);
    for (std::size_t i = j; i < n; i += LogSum::kLanes) {
      const auto v = hn::LoadU(dh, x + i);
      const auto in = hn::Ge(v, least);
      smallest = hn::Min(smallest, hn::IfThenElse(in, v, infinity));
      count = hn::Add(count, hn::PromoteTo(d, hn::IfThenElseZero(in, hn::Set(dh, 1.0F))));
      const auto wide = hn::PromoteTo(d, hn::IfThenElseZero(in, v));
      sum = hn::Add(sum, wide);
      square = hn::Add(square, hn::Mul(wide, wide));
    }
    hn::Store(count, d, &lanes.count[j]);
    hn::Store(sum, d, &lanes.sum[j]);
    hn::Store(square, d, &lanes.square[j]);
    hn::Store(smallest, dh, &lanes.smallest[j]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace topknot::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace topknot::core {

HWY_EXPORT(add_logs);
HWY_EXPORT(add_magnitudes);
HWY_EXPORT(compress);
HWY_EXPORT(add_tail);

namespace {

constexpr std::size_t kBlock = 4096;

// A product of kBlock / 16 mantissas stays below 2^257; before the next its exponent
// moves over to where exponents are summed.
void normalize(LogSum::Lanes& lanes) {
  for (std::size_t lane = 0; lane < LogSum::kLanes; ++lane) {
    int exponent = 0;
    lanes.product[lane] = 2 * std::frexp(lanes.product[lane], &exponent);
    lanes.exponent[lane] += exponent - 1;
  }
}

}  // namespace

LogSum::LogSum() { lanes_.product.fill(1); }

void LogSum::add(std::span<const float> x) {
  seen_ += x.size();
  while (x.size() >= kLanes) {
    const std::size_t length = std::min(kBlock, x.size() - x.size() % kLanes);
    HWY_DYNAMIC_DISPATCH(add_logs)(x.data(), length, lanes_);
    normalize(lanes_);
    x = x.subspan(length);
  }
  if (x.empty()) return;
  std::array<float, kLanes> last = {};
  std::copy(x.begin(), x.end(), last.begin());
  HWY_DYNAMIC_DISPATCH(add_logs)(last.data(), kLanes, lanes_);
  normalize(lanes_);
  seen_ += kLanes - x.size();  // the zeros behind the end
}

double LogSum::sum() const {
  std::int64_t exponent = 0;
  double logs = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    exponent += lanes_.exponent[lane];
    logs += std::log(lanes_.product[lane]);
  }
  return static_cast<double>(exponent) * std::numbers::ln2 + logs;
}

std::size_t LogSum::count() const { return seen_ - lanes_.zeros; }

double sum_of_magnitudes(std::span<const float> x) {
  std::array<double, LogSum::kLanes> sums = {};
  const std::size_t whole = x.size() - x.size() % LogSum::kLanes;
  for (std::size_t i = 0; i < whole; i += kBlock) {
    HWY_DYNAMIC_DISPATCH(add_magnitudes)
    (x.data() + i, std::min(kBlock, whole - i), sums.data());
  }
  for (std::size_t i = whole; i < x.size(); ++i)
    sums[i - whole] += std::abs(static_cast<double>(x[i]));
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void append_magnitudes(std::span<const float> x, float threshold,
                       std::vector<float>& out) {
  std::array<float, kBlock + LogSum::kLanes> block;
  for (std::size_t first = 0; first < x.size(); first += kBlock) {
    const std::size_t length = std::min(kBlock, x.size() - first);
    const std::size_t count =
        HWY_DYNAMIC_DISPATCH(compress)(x.data() + first, length, threshold, block.data());
    out.insert(out.end(), block.begin(),
               block.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

void keep_at_least(float threshold, std::vector<float>& magnitudes) {
  std::array<float, kBlock + LogSum::kLanes> block;
  std::size_t kept = 0;
  for (std::size_t first = 0; first < magnitudes.size(); first += kBlock) {
    const std::size_t length = std::min(kBlock, magnitudes.size() - first);
    const std::size_t count = HWY_DYNAMIC_DISPATCH(compress)(
        magnitudes.data() + first, length, threshold, block.data());
    std::copy_n(block.begin(), count,
                magnitudes.begin() + static_cast<std::ptrdiff_t>(kept));
    kept += count;
  }
  magnitudes.resize(kept);
}

Tail tail(std::span<const float> magnitudes, float threshold) {
  TailLanes lanes = {};
  lanes.smallest.fill(std::numeric_limits<float>::infinity());
  const std::size_t whole = magnitudes.size() - magnitudes.size() % LogSum::kLanes;
  for (std::size_t i = 0; i < whole; i += kBlock) {
    HWY_DYNAMIC_DISPATCH(add_tail)
    (magnitudes.data() + i, std::min(kBlock, whole - i), threshold, lanes);
  }
  // What does not fill the lanes, with NaN behind it: nothing is in the tail but numbers.
  std::array<float, LogSum::kLanes> last;
  last.fill(std::numeric_limits<float>::quiet_NaN());
  std::copy(magnitudes.begin() + static_cast<std::ptrdiff_t>(whole), magnitudes.end(),
            last.begin());
  HWY_DYNAMIC_DISPATCH(add_tail)(last.data(), LogSum::kLanes, threshold, lanes);
  const auto total = [](const std::array<double, LogSum::kLanes>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  return {total(lanes.count), total(lanes.sum), total(lanes.square),
          *std::min_element(lanes.smallest.begin(), lanes.smallest.end())};
}

}  // namespace topknot::core
#endif  // HWY_ONCE

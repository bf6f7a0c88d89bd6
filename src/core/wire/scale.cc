// SPDX-License-Identifier: Apache-2.0
//
// The power of two that the steps of i8 and i2 are multiples of.
//
// i8 takes the smallest that reaches the largest value. i2, whose levels are one and
// three times the scale, takes the one with the least squared error, and finds it exactly
// with one look at each value: the magnitude at which the nearer level changes, 2 *
// scale, is a power of two as well, so the number of values and the sum of their
// magnitudes for each binary exponent tell the error of every scale there is.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/wire/parts.h"

namespace topknot::core::wire {
namespace {

// The magnitudes of some values that have the same binary exponent.
struct Octave {
  std::uint64_t count = 0;
  std::uint64_t mantissas = 0;  // added up as whole numbers, so in any order
};
using Octaves = std::array<Octave, 256>;

// A count and a sum of as many mantissas in one word, for one addition in place of two.
constexpr int kSumBits = 44;
constexpr std::size_t kStretch = std::size_t{1} << 18;  // so many overflow neither part
static_assert(kStretch < std::size_t{1} << (64 - kSumBits));
static_assert(kStretch << 24 <= std::uint64_t{1} << kSumBits);

void add_octaves(std::span<const float> value, Octaves& octaves) {
  // Neighbours often meet in one octave, and would wait for each other in one table.
  std::array<std::array<std::uint64_t, 256>, 4> lanes{};
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto magnitude = static_cast<std::uint32_t>(magnitude_bits(value[i]));
    const std::uint32_t field = magnitude >> 23;
    const std::uint32_t mantissa = (magnitude & 0x7FFFFF) | (field != 0 ? 0x800000 : 0);
    lanes[i % 4][field] += std::uint64_t{1} << kSumBits | mantissa;
  }
  for (std::size_t field = 0; field < octaves.size(); ++field) {
    for (const auto& lane : lanes) {
      octaves[field].count += lane[field] >> kSumBits;
      octaves[field].mantissas += lane[field] & ((std::uint64_t{1} << kSumBits) - 1);
    }
  }
}

Octaves octaves_of(std::span<const float> value) {
  Octaves octaves{};
  while (!value.empty()) {
    const std::size_t length = std::min(value.size(), kStretch);
    add_octaves(value.first(length), octaves);
    value = value.subspan(length);
  }
  return octaves;
}

}  // namespace

int scale_exponent_i8(std::span<const float> value) {
  std::int32_t most = 0;
  for (const float v : value) {
    const std::int32_t magnitude = magnitude_bits(v);
    const std::int32_t finite = magnitude < kInfinityBits ? magnitude : 0;
    most = finite > most ? finite : most;
  }
  if (most == 0) return kNoScale;
  int exponent = 0;
  const float fraction = std::frexp(std::bit_cast<float>(most), &exponent);
  exponent -= fraction * 128 > 127 ? 6 : 7;
  return std::clamp(exponent, kLeastExponent, kMostExponentI8);
}

// The scale 2^e with the least squared error, which is, but for the sum of v^2,
//
//   scale^2 * (n1 + 9 * n3) - 2 * scale * (a1 + 3 * a3)
//
// with n values of magnitudes that add up to a, those of index 1 below 2 * scale.
int scale_exponent_i2(std::span<const float> value) {
  const Octaves octaves = octaves_of(value);
  std::array<double, 255> sum{};  // without NaN and infinity
  double n1 = 0;
  double a1 = 0;
  for (std::size_t field = 0; field < sum.size(); ++field) {
    const int last_bit = std::max(static_cast<int>(field), 1) - 150;
    sum[field] = std::ldexp(static_cast<double>(octaves[field].mantissas), last_bit);
    n1 += static_cast<double>(octaves[field].count);
    a1 += sum[field];
  }
  double n3 = 0;
  double a3 = 0;
  int best = kNoScale;
  double least = 0;
  for (int exponent = kMostExponentI2; exponent >= kLeastExponent; --exponent) {
    const auto field = static_cast<std::size_t>(exponent + 128);  // that of 2 * scale
    const auto moved = static_cast<double>(octaves[field].count);
    n1 -= moved;
    n3 += moved;
    a1 -= sum[field];
    a3 += sum[field];
    const double scale = scale_of(exponent);
    const double error = scale * scale * (n1 + 9 * n3) - 2 * scale * (a1 + 3 * a3);
    if (error < least) {
      least = error;
      best = exponent;
    }
  }
  return best;
}

}  // namespace topknot::core::wire

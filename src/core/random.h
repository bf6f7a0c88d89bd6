// SPDX-License-Identifier: Apache-2.0
//
// Random numbers by counter: the i-th number of a seed is a pure function of both, the
// same on every machine, so ranks that share a seed agree without messages and nothing
// needs saving but the counter.
#pragma once

#include <bit>
#include <cstdint>

namespace topknot::core {

/// 64 well-mixed bits of (seed, counter): SplitMix64's output function over both.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  };
  return mix(mix(seed + 0x9E3779B97F4A7C15ULL) + (counter + 1) * 0x9E3779B97F4A7C15ULL);
}

/// -ln(u / 2^24) for u in [1, 2^24], off by less than 1e-10. Additions, products and one
/// division round alike everywhere; std::log does not.
constexpr double minus_log24(std::uint32_t u) {
  constexpr double kLn2 = 0.693147180559945309417;
  constexpr double kSqrt2 = 1.41421356237309504880;
  const int log2 = 31 - std::countl_zero(u);
  const double mantissa = u * std::bit_cast<double>(std::uint64_t(1023 - log2) << 52);
  const bool high = mantissa > kSqrt2;
  const double m = mantissa * (high ? 0.5 : 1.0);
  // ln m = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...), and |s| < 0.172.
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 1.0 / 11;
  for (int odd = 9; odd > 0; odd -= 2) series = series * s2 + 1.0 / odd;
  return (24 - log2 - (high ? 1 : 0)) * kLn2 - 2 * s * series;
}

/// A stream of numbers that starts at `counter`.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed, std::uint64_t counter = 0)
      : seed_(seed), counter_(counter) {}

  constexpr std::uint64_t bits() { return random_bits(seed_, counter_++); }
  /// Uniform in [0, 1), 24 bits.
  constexpr float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24F; }
  /// Uniform in [0, bound); `bound` is not 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits()) * bound) >>
                                      64);
  }
  /// Laplace with mean 0 and mean magnitude 1: the heavy tail of a typical gradient.
  constexpr float laplace() {
    const std::uint64_t b = bits();
    const double magnitude = minus_log24(static_cast<std::uint32_t>(b >> 40) + 1);
    return static_cast<float>((b & 1) != 0 ? magnitude : -magnitude);
  }

  constexpr std::uint64_t counter() const { return counter_; }

 private:
  std::uint64_t seed_;
  std::uint64_t counter_;
};

}  // namespace topknot::core

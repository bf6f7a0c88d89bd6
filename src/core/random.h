// SPDX-License-Identifier: Apache-2.0
//
// Random numbers by counter: the i-th number of a seed is a pure function of both, the
// same on every machine, so ranks that share a seed agree without a word and nothing
// needs saving but the counter.
#pragma once

#include <cmath>
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
  float laplace() {
    const std::uint64_t b = bits();
    const float magnitude = -std::log(static_cast<float>((b >> 40) + 1) * 0x1p-24F);
    return (b & 1) != 0 ? magnitude : -magnitude;
  }

  constexpr std::uint64_t counter() const { return counter_; }

 private:
  std::uint64_t seed_;
  std::uint64_t counter_;
};

}  // namespace topknot::core

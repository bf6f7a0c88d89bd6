// SPDX-License-Identifier: Apache-2.0
//
// Vectors that selection finds hard. On a smooth distribution nearly all magnitudes
// differ and spread over many octaves. Gradients are not always like that: Adam's first
// moves are all the learning rate, give or take a unit in the last place, and quantised
// gradients have a few magnitudes.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/random.h"

namespace topknot::testing {

/// The float that is `ulps` units in the last place above `x`, which is positive.
inline float ulps_above(float x, std::uint64_t ulps) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) +
                              static_cast<std::uint32_t>(ulps));
}

/// A kind of vector: coordinate i of n. All are finite, and so is the sum of any eight.
struct Awkward {
  const char* name;
  float (*draw)(core::Random& random, std::size_t i, std::size_t n);

  std::vector<float> vector(std::size_t n, std::uint64_t seed = 1) const {
    core::Random random(seed);
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      const float magnitude = draw(random, i, n);
      x[i] = random.below(2) == 0 ? magnitude : -magnitude;
    }
    return x;
  }
};

inline constexpr float kAwkwardLargest = std::numeric_limits<float>::max() / 16;
inline constexpr float kSmallestDenormal = std::numeric_limits<float>::denorm_min();

inline constexpr Awkward kAwkward[] = {
    {"smooth", [](core::Random& r, std::size_t, std::size_t) { return r.laplace(); }},
    {"zeros", [](core::Random&, std::size_t, std::size_t) { return 0.0F; }},
    {"equal", [](core::Random&, std::size_t, std::size_t) { return 0.1F; }},
    {"equal but one larger, at the end",
     [](core::Random&, std::size_t i, std::size_t n) {
       return ulps_above(1, i + 1 == n ? 1 : 0);
     }},
    {"equal but one smaller, at the front",
     [](core::Random&, std::size_t i, std::size_t) { return i == 0 ? 0.5F : 1.0F; }},
    {"few magnitudes",
     [](core::Random& r, std::size_t, std::size_t) {
       constexpr float kMagnitudes[] = {0, 0.25F, 1, 1.5F, 3};
       return kMagnitudes[r.below(5)];
     }},
    {"one binade",
     [](core::Random& r, std::size_t, std::size_t) { return 1 + r.uniform(); }},
    {"a few units in the last place",
     [](core::Random& r, std::size_t, std::size_t) {
       return ulps_above(0.7F, r.below(64));
     }},
    // As many in each octave of distances: most in a bin, many beside it.
    {"units in the last place by octaves",
     [](core::Random& r, std::size_t, std::size_t) {
       return ulps_above(0.3F, std::uint64_t{1} << r.below(22));
     }},
    {"units in the last place over octaves",
     [](core::Random& r, std::size_t, std::size_t) {
       return ulps_above(0.3F, r.below(std::uint64_t{1} << r.below(22)));
     }},
    {"Adam's first moves",
     [](core::Random& r, std::size_t, std::size_t) {
       return r.below(50) == 0 ? 0.0F : ulps_above(0.001F, r.below(3));
     }},
    // Two of Adam's moves: the same sign twice, or a smaller second one.
    {"Adam's second moves",
     [](core::Random& r, std::size_t, std::size_t) {
       const float first = ulps_above(0.001F, r.below(3));
       return r.below(4) == 0 ? first + 0.001F * r.uniform() : first + 0.001F;
     }},
    {"quantised to eight bits",
     [](core::Random& r, std::size_t, std::size_t) {
       return std::trunc(20 * std::abs(r.laplace())) * 0x1p-10F;
     }},
    {"powers of two",
     [](core::Random& r, std::size_t, std::size_t) {
       return std::ldexp(1.0F, static_cast<int>(r.below(272)) - 149);
     }},
    {"denormals",
     [](core::Random& r, std::size_t, std::size_t) {
       return static_cast<float>(r.below(5000)) * kSmallestDenormal;
     }},
    {"zeros and a few denormals",
     [](core::Random& r, std::size_t, std::size_t) {
       return r.below(100) == 0 ? kSmallestDenormal : 0.0F;
     }},
    {"the whole range",
     [](core::Random& r, std::size_t, std::size_t) {
       constexpr auto kEnd = std::bit_cast<std::uint32_t>(kAwkwardLargest);
       return std::bit_cast<float>(static_cast<std::uint32_t>(r.below(kEnd)));
     }},
    {"near the largest float",
     [](core::Random& r, std::size_t, std::size_t) {
       return std::bit_cast<float>(std::bit_cast<std::uint32_t>(kAwkwardLargest) -
                                   static_cast<std::uint32_t>(r.below(9)));
     }},
    {"rising by a unit in the last place",
     [](core::Random&, std::size_t i, std::size_t) { return ulps_above(2, i); }},
    {"falling by a unit in the last place",
     [](core::Random&, std::size_t i, std::size_t n) { return ulps_above(2, n - i); }},
};

/// Lengths next to the constants that selection has inside: a word, a chunk, a few, a
/// block, a short histogram, room to spare.
inline constexpr std::size_t kAwkwardSizes[] = {0,    1,    2,    63,   64,   65,
                                                1023, 1024, 1025, 2047, 2048, 2049,
                                                4095, 4096, 4097, 8191, 8192, 65537};

}  // namespace topknot::testing

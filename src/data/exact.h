// SPDX-License-Identifier: Apache-2.0
//
// Functions whose results have the same bits on every machine. They use sums, products,
// quotients and roots only, which IEEE 754 rounds exactly; std::sin and others differ between
// libraries.
#pragma once

#include <cstdint>

#include "core/random.h"

namespace topknot::data {

constexpr double kPi = 3.14159265358979323846;

/// sin(2 pi turns) with an error below 1e-9, for turns in [-2^40, 2^40].
constexpr double sine(double turns) {
  double t = turns - static_cast<double>(static_cast<std::int64_t>(turns));  // (-1, 1)
  if (t > 0.5) t -= 1;
  if (t < -0.5) t += 1;
  // sin(x) = sin(pi - x) brings the angle within a quarter turn.
  if (t > 0.25) t = 0.5 - t;
  if (t < -0.25) t = -0.5 - t;
  const double x = 2 * kPi * t;
  const double x2 = x * x;
  double series = 1;
  for (int k = 8; k >= 1; --k) series = 1 - series * x2 / ((2.0 * k) * (2.0 * k + 1));
  return x * series;
}

constexpr double cosine(double turns) { return sine(turns + 0.25); }

/// Uniform in [-1, 1).
constexpr float around_zero(core::Random& random) { return 2 * random.uniform() - 1; }

/// Mean 0, variance 1, within [-sqrt(12), sqrt(12)]: the scaled sum of four uniforms.
/// Draws one number.
constexpr float bell(core::Random& random) {
  const std::uint64_t bits = random.bits();
  const auto sum = static_cast<float>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) +
                                      ((bits >> 32) & 0xFFFF) + (bits >> 48));
  return (sum - 131070.0F) * (1.7320508F / 65536.0F);
}

}  // namespace topknot::data

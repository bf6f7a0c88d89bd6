// SPDX-License-Identifier: Apache-2.0
//
// Moments of magnitudes. Every sum runs in 16 lanes of double, coordinate i in lane i mod
// 16, and the lanes are added in order, so the result does not depend on the vector's
// width.
#pragma once

#include <span>

namespace topknot::core {

struct Moments {
  double sum = 0;            ///< of x
  double sum_magnitude = 0;  ///< of |x|
  double sum_square = 0;     ///< of x^2
  float max_magnitude = 0;
};

/// The moments of `x`; NaN and infinity travel into the sums and the maximum.
Moments moments(std::span<const float> x);

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include "sim/rates.h"

#include <algorithm>
#include <cmath>

namespace topknot::sim {

// Least squares of the relative errors, in two unknowns. Where one of them would be negative, it
// is 0, and the other is fitted alone.
Rates fit(std::span<const WorkSample> samples) {
  double nn = 0;
  double nb = 0;
  double bb = 0;
  double n1 = 0;
  double b1 = 0;
  for (const WorkSample& sample : samples) {
    const double n = sample.coordinates / sample.seconds;
    const double b = sample.bytes / sample.seconds;
    nn += n * n;
    nb += n * b;
    bb += b * b;
    n1 += n;
    b1 += b;
  }
  const double by_coordinate = nn > 0 ? n1 / nn : 0;
  const double by_byte = bb > 0 ? b1 / bb : 0;
  const double determinant = nn * bb - nb * nb;
  // The two cannot be told apart where bytes are proportional to coordinates: a dense sum.
  if (determinant <= 1e-6 * nn * bb)
    return bb > 0 ? Rates{0, by_byte} : Rates{by_coordinate, 0};
  const Rates both{(n1 * bb - b1 * nb) / determinant, (b1 * nn - n1 * nb) / determinant};
  if (both.per_coordinate < 0) return {0, by_byte};
  if (both.per_byte < 0) return {by_coordinate, 0};
  return both;
}

Rates Calibration::rates(std::string_view scheme) const {
  if (const auto found = by_scheme.find(scheme); found != by_scheme.end())
    return found->second;
  if (const auto found = by_scheme.find("topka"); found != by_scheme.end())
    return found->second;
  return default_calibration().rates("topka");
}

const Calibration& default_calibration() {
  static const Calibration kDefault{{},
                                    {},
                                    {{"dense", {0, 0.3e-9}},
                                     {"dense-bf16", {0, 1e-9}},
                                     {"topka", {0.8e-9, 6e-9}},
                                     {"knot-rounds", {0, 50e-9}}}};
  return kDefault;
}

}  // namespace topknot::sim

// SPDX-License-Identifier: Apache-2.0
//
// What only some estimators want to know of magnitudes: their logarithms, and those in
// the tail by themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topknot::core {

/// The sum of ln|x| over many x, zeros left out, without a logarithm for each: mantissas
/// are multiplied and exponents added, in 16 lanes, so that the result does not depend on
/// the vector's width.
class LogSum {
 public:
  static constexpr std::size_t kLanes = 16;
  struct Lanes {
    alignas(64) std::array<double, kLanes> product;
    alignas(64) std::array<std::int64_t, kLanes> exponent;
    std::size_t zeros;
  };

  LogSum();
  /// Finite numbers; a multiple of 16 of them, except on the last call.
  void add(std::span<const float> x);
  double sum() const;
  /// How many were not zero.
  std::size_t count() const;

 private:
  Lanes lanes_ = {};
  std::size_t seen_ = 0;  // and the zeros that filled up the last lanes
};

/// The sum of |x|, in 16 lanes of double as moments() has it, which takes twice as long.
double sum_of_magnitudes(std::span<const float> x);

/// Appends to `out` the magnitudes of `x` that are at least `threshold`, in order.
void append_magnitudes(std::span<const float> x, float threshold,
                       std::vector<float>& out);

/// Leaves in `magnitudes` those that are at least `threshold`.
void keep_at_least(float threshold, std::vector<float>& magnitudes);

/// Those of some magnitudes that are at least a threshold.
struct Tail {
  double count = 0;
  double sum = 0;
  double square = 0;   ///< sum of squares
  float smallest = 0;  ///< infinity when there are none
};
/// The tail of `magnitudes`; sums in 16 lanes of double as moments() has them.
Tail tail(std::span<const float> magnitudes, float threshold);

}  // namespace topknot::core

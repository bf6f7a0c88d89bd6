// SPDX-License-Identifier: Apache-2.0
//
// What an estimator of thresholds needs: the statistics of all coordinates and the few
// that matter, from one sweep.
//
// An estimator says a threshold when it has seen everything, and then it wants to know
// how many coordinates reach it, correct it, and ask again. Sweeping the vector for each
// answer is what makes the published ones slow. But all answers that matter are about the
// largest 2k coordinates, and these are found while the gradient is folded in, because
// the residual changes little: a floor under them is known from the last step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/stats.h"
#include "core/sweep.h"
#include "topknot/sparse.h"

namespace topknot::core {

/// The 2k largest coordinates of a vector and a few more. What it keeps from step to step
/// changes the time a step takes, never its result.
class Shortlist {
 public:
  /// Folds as core::fold() does, and replaces `pairs` with at least min(2k + 1, n)
  /// coordinates, among them every one that is larger than the smallest of these. So for
  /// any threshold count_at_least(pairs.value, threshold) is the count of the whole
  /// vector where that is at most 2k, and more than 2k where that is more.
  ///
  /// `observe(block)` sees all sums in order, at most kSweepBlock at a time, while they
  /// are in the cache; every block but the last has a multiple of 16. When the fold
  /// fails, returns false with `pairs` empty, and what was observed is of no use.
  template <typename Observe>
  [[nodiscard]] bool fold(std::span<float> residual, std::span<float> grad, std::size_t k,
                          Sparse& pairs, Observe observe) {
    begin(residual.size(), k, pairs);
    std::size_t first = 0;
    const auto take = [&](const BlockHits& hits, std::uint32_t floor) {
      const std::size_t length = std::min(kSweepBlock, residual.size() - first);
      observe(std::span<const float>(residual.subspan(first, length)));
      first += length;
      return add(hits, floor, pairs);
    };
    if (!sweep(residual, grad, floor_of(floor_), take)) {
      pairs.clear();
      return false;
    }
    complete(residual, pairs);
    return true;
  }

  /// Leaves in `pairs`, as fold() left it, what reaches `threshold`.
  void cut(float threshold, Sparse& pairs);
  /// Leaves in `pairs`, as fold() left it, the k largest, ties to the lower index.
  /// Returns the smallest magnitude of these; 0 if there are none.
  float cut_to(std::size_t k, Sparse& pairs);

 private:
  void begin(std::size_t n, std::size_t k, Sparse& pairs);
  std::uint32_t add(const BlockHits& hits, std::uint32_t floor, Sparse& pairs);
  void complete(std::span<float> residual, Sparse& pairs);
  void aim(float threshold, std::size_t kept, std::size_t listed);

  // What reaches it is listed: last step's guess, then what it rose or fell to.
  float floor_ = std::numeric_limits<float>::infinity();
  std::size_t k_ = 0;
  std::size_t least_ = 0;
};

/// The magnitude at which one of the histogram's bins begins and that at least `least` of
/// `x` reach, as high as there is one; 0 when `x` has fewer.
float floor_over(std::span<const float> x, std::size_t least);

/// Whether `count` is between half and twice `k`: what the estimators promise.
constexpr bool within_twice(std::size_t count, std::size_t k) {
  return k <= 2 * count && count <= 2 * k;
}

/// `x` as a threshold: the nearest finite float that is not negative, 0 for NaN.
float as_threshold(double x);

/// Adds the moments of a further stretch.
void add_to(Moments& total, const Moments& stretch);

}  // namespace topknot::core

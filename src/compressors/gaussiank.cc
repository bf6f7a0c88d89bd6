// SPDX-License-Identifier: Apache-2.0
//
// gaussiank: a threshold from the mean and the deviation, as if the residual were normal.
//
//   estimate   the t that a share k/n of |x| would reach, were x normal with the residual's
//              mean and standard deviation; both tails count
//   correct    up to five times: fewer than 2k/3 reach it, halve it; more than 4k/3,
//              raise it by half; once it is known between two values, take their
//              geometric mean
//
// Residuals are not normal. A tail that is heavier makes the estimate too low, the residual's own
// lack of large values (they have been sent) makes it too high, and the corrections do
// the rest. They cost little here: they count among the largest few thousand, which the
// sweep that sums up the moments has set aside (core/shortlist.h).
//
// Promise  between k/2 and 2k coordinates, on every step. Where the corrections end
//          outside, exactly k, ties to the lower index.
// Cost     reads and writes residual and grad once, in nearly all steps; two more
//          reads of residual when the scale has changed much.
// Paper    Shi, Chu, Cheung, See, "Understanding Top-k Sparsification in Distributed Deep
//          Learning", arXiv 1911.08772.
// Departs  The published code looks at one tail of a two-sided estimate, which is wrong
//          when the mean is not zero; its factors 0.5 and 1.5 can step over the band for
//          ever; it corrects three times, and the last is not applied; and its count may
//          end anywhere.

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/quantile.h"
#include "core/select.h"
#include "core/shortlist.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

class GaussianK final : public Compressor {
 public:
  explicit GaussianK(Params& params)
      : corrections_(params.integer("corrections", 5, 0, 32,
                                    "how often the threshold is corrected, at most")) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    k = std::min(k, residual.size());
    out.clear();
    if (k == 0) return core::fold(residual, grad);
    core::Moments moments;
    if (!list_.fold(residual, grad, k, out, [&](std::span<const float> block) {
          core::add_to(moments, core::moments(block));
        }))
      return false;
    const float threshold = correct(estimate(moments, residual.size(), k), k, out.value);
    if (core::within_twice(core::count_at_least(out.value, threshold), k)) {
      list_.cut(threshold, out);
    } else {
      list_.cut_to(k, out);
    }
    return true;
  }

 private:
  static float estimate(const core::Moments& moments, std::size_t n, std::size_t k) {
    const auto size = static_cast<double>(n);
    const double mean = moments.sum / size;
    const double squares = moments.sum_square - size * mean * mean;
    const double deviation = std::sqrt(std::max(0.0, squares / std::max(1.0, size - 1)));
    return core::as_threshold(
        core::normal_magnitude_quantile(mean, deviation, static_cast<double>(k) / size));
  }

  float correct(float threshold, std::size_t k, std::span<const float> largest) const {
    float low = 0;   // the last that too many reached
    float high = 0;  // the last that too few did; 0 for none
    for (std::int64_t i = 0; i < corrections_; ++i) {
      const std::size_t count = core::count_at_least(largest, threshold);
      if (3 * count < 2 * k) {
        high = threshold;
        threshold = low > 0 ? between(low, high) : 0.5F * threshold;
      } else if (3 * count > 4 * k) {
        low = threshold;
        threshold = high > 0 ? between(low, high)
                             : core::as_threshold(1.5 * static_cast<double>(threshold));
      } else {
        break;
      }
    }
    return threshold;
  }

  static float between(float low, float high) { return std::sqrt(low) * std::sqrt(high); }

  const std::int64_t corrections_;
  core::Shortlist list_;
};

}  // namespace

std::unique_ptr<Compressor> gaussiank(const Layout&, Params& params) {
  return std::make_unique<GaussianK>(params);
}

}  // namespace topknot::compressor

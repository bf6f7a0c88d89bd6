// SPDX-License-Identifier: Apache-2.0
//
// redsync: a threshold between the mean and the largest magnitude.
//
//   binary    thresholds mean + x (max - mean); x in [0, 1] is halved until between k and
//             2k coordinates reach it. Where none does (equal magnitudes, or k so large
//             that the threshold would be below the mean), the k largest.
//   trimmed   the paper lowers x from 0.8 by 0.2 at a time until at least k coordinates
//             survive, and takes the k largest of these. Whatever the steps, these are
//             the k largest of all, and core/shortlist.h finds few enough survivors in
//             the sweep that folds; no step is needed.
//
// Promise  binary: between k and 2k coordinates; trimmed: exactly k. On every step.
// Cost     reads and writes residual and grad once, in nearly all steps; two more
//          reads of residual when the scale has changed much. The search counts among the
//          largest few thousand.
// Paper    Fang, Fu, Yang, Hsieh, "RedSync: Reducing Synchronization Bandwidth for
//          Distributed Deep Learning Training System", JPDC 2019.
// Departs  The code in circulation is by others. There the search ends after three
//          halvings, so that with a heavy tail it selects far fewer than k; where k/2 to
//          k reach the threshold it goes up instead of down; trimming never ends when all
//          magnitudes are equal, as in a vector of zeros, and skips the last selection.
//          The paper is said to choose by size, small tensors dense, medium ones trimmed,
//          large ones by binary search, and to keep a threshold for several steps; here
//          the method is a parameter of all buckets, and every step searches.

#include <algorithm>
#include <memory>
#include <optional>

#include "core/select.h"
#include "core/shortlist.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

// Thresholds stop changing long before.
constexpr int kMostHalvings = 60;

class RedSync final : public Compressor {
 public:
  explicit RedSync(Params& params)
      : trimmed_(
            params.choice("method", {"binary", "trimmed"},
                          "a threshold that k to 2k reach, or exactly the k largest") ==
            "trimmed") {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    k = std::min(k, residual.size());
    out.clear();
    if (k == 0) return core::fold(residual, grad);
    core::Moments moments;
    const auto observe = [&](std::span<const float> block) {
      if (!trimmed_) core::add_to(moments, core::moments(block));
    };
    if (!list_.fold(residual, grad, k, out, observe)) return false;
    const double mean = moments.sum_magnitude / static_cast<double>(residual.size());
    const auto threshold =
        trimmed_ ? std::nullopt : search(mean, moments.max_magnitude, k, out.value);
    if (threshold) {
      list_.cut(*threshold, out);
    } else {
      list_.cut_to(k, out);
    }
    return true;
  }

 private:
  static std::optional<float> search(double mean, double max, std::size_t k,
                                     std::span<const float> largest) {
    double low = 0;
    double high = 1;
    float last = -1;
    for (int i = 0; i < kMostHalvings; ++i) {
      const double x = (low + high) / 2;
      const float threshold = core::as_threshold(mean + x * (max - mean));
      if (threshold == last) break;
      last = threshold;
      const std::size_t count = core::count_at_least(largest, threshold);
      if (count < k) {
        high = x;
      } else if (count > 2 * k) {
        low = x;
      } else {
        return threshold;
      }
    }
    return std::nullopt;
  }

  const bool trimmed_;
  core::Shortlist list_;
};

}  // namespace

std::unique_ptr<Compressor> redsync(const Layout&, Params& params) {
  return std::make_unique<RedSync>(params);
}

}  // namespace topknot::compressor

// SPDX-License-Identifier: Apache-2.0
//
// dgc: a threshold from a sample, then the k largest of what reaches it.
//
//   sample   one coordinate in a hundred or so of residual + grad, at a fixed stride from a
//            random start
//   sweep    fold the gradient in and keep aside what reaches the sample's threshold
//   choose   the k largest of these; when the sample misled us and fewer than 0.8 k came,
//            the k largest of all, by another sweep
//
// The threshold is set where the sample has its own share of k, plus three standard
// deviations of that count. Too many candidates cost next to nothing; too few cost a
// sweep.
//
// Promise  at most k coordinates and at least 0.8 k (lower); exactly the k largest in
//          nearly all steps, and always in a vector too short to be sampled.
// Cost     reads and writes residual and grad once; touches a sixth of their cache
//          lines before that, for the sample; O(k) besides.
// Paper    Lin et al., "Deep Gradient Compression", ICLR 2018. Momentum correction,
//          factor masking and clipping are the memory of the same name.
// Departs  - The published code sends what the sampled threshold gives and, where that is
//            more than k, the first k by position: what is large but far back is left
//            behind. Here the k largest are sent.
//          - It lowers a threshold that is too high by a fifth up to ten times, with a
//            sweep each; here one sweep finds the exact answer.
//          - The largest stride that gives enough samples, as published: one more than a
//            multiple of 8, so that it does not fall in step with the rows of a matrix.
//            spare=0 gives the published threshold.
//          - It selects in each tensor by itself, k rounded up; here in a bucket, k
//            rounded down.
//          - Its warm-up is the scheme's schedule: 25 % of the gradient in the first
//            epoch, then in four equal ratios down to the density. The published code has
//            another one by default, c, c^2, ... with c the sixth root of the density.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "core/at_most.h"
#include "core/random.h"
#include "core/select.h"
#include "core/sweep.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

class Dgc final : public Compressor {
 public:
  explicit Dgc(Params& params)
      : sample_ratio_(params.number("sample", 0.01, 0.0001, 1,
                                    "the part of all coordinates that is sampled")),
        spare_(params.number("spare", 3, 0, 100,
                             "how low the threshold is, in deviations of the count")),
        lower_(params.number("lower", 0.8, 0, 1,
                             "fewer than this times k are not accepted")),
        seed_(static_cast<std::uint64_t>(params.integer(
            "seed", 1, 0, INT64_MAX, "of the positions where samples begin"))) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    out.clear();
    k = std::min(k, residual.size());
    if (k == 0) return core::fold(residual, grad);
    const float threshold = sampled_threshold(residual, grad, k);
    if (!core::fold_and_select_at_most(residual, grad, threshold, k, k, out))
      return false;
    if (static_cast<double>(out.size()) < lower_ * static_cast<double>(k))
      return core::fold_and_select_at_most(residual, {}, 0, k, k, out);
    return true;
  }

  void visit_state(StateVisitor& visitor) override { visitor.field("step", step_); }

 private:
  /// The distance between samples; 1 where the vector is too short for sampling. There
  /// are enough samples for two to be among the k largest, on average.
  std::size_t stride_for(std::size_t n, std::size_t k) const {
    const auto part =
        static_cast<std::size_t>(std::ceil(static_cast<double>(n) * sample_ratio_));
    const std::size_t fewest = (2 * n + k - 1) / k;
    const std::size_t stride = n / std::max(part, fewest);
    return stride < 9 ? 1 : (stride - 1) / 8 * 8 + 1;
  }

  float sampled_threshold(std::span<const float> residual, std::span<const float> grad,
                          std::size_t k) {
    const std::size_t stride = stride_for(residual.size(), k);
    if (stride == 1) return 0;
    sample_.clear();
    for (std::size_t i = core::Random(seed_, step_++).below(stride); i < residual.size();
         i += stride)
      sample_.push_back(
          core::magnitude_bits(grad.empty() ? residual[i] : residual[i] + grad[i]));
    const double share =
        std::ceil(static_cast<double>(sample_.size()) * static_cast<double>(k) /
                  static_cast<double>(residual.size()));
    const auto rank = static_cast<std::size_t>(share + spare_ * std::sqrt(share));
    if (rank >= sample_.size()) return 0;
    const auto nth = sample_.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(sample_.begin(), nth, sample_.end(), std::greater<>());
    return std::bit_cast<float>(*nth);
  }

  const double sample_ratio_;
  const double spare_;
  const double lower_;
  const std::uint64_t seed_;
  std::uint64_t step_ = 0;
  std::vector<std::uint32_t> sample_;  // magnitudes as bits, which NaN does not unsort
};

}  // namespace

std::unique_ptr<Compressor> dgc(const Layout&, Params& params) {
  return std::make_unique<Dgc>(params);
}

}  // namespace topknot::compressor

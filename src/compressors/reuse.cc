// SPDX-License-Identifier: Apache-2.0
//
// reuse: a threshold that is found exactly now and then, and corrected in between.
//
// The k-th magnitude moves slowly, so it is found on a few steps only, and on the others
// one sweep takes all that reach it. After each of these the threshold is corrected by
// how many came. This is the selection of Ok-Topk; the collective oktopk has the rest.
//
// The exact steps are 0, 1, 2, 4, 8, ... and then every tau_prime: at the start the residual
// grows from nothing, and a threshold that is right on one step is far too low on the
// next. When k changes, as at the end of a warm-up, it starts again.
//
// With the collective oktopk, its workload, tau_prime and faithful are this compressor's
// too, unless it is given its own: see core/threshold_reuse.h.
//
// Promise  exactly k on exact steps; between k/2 and 2k on every other, whatever happens
//          to the gradient: where the threshold would give more or fewer, the k largest
//          are selected instead, and give the new threshold. With faithful=1 only the
//          exact steps promise anything.
// Cost     reads and writes residual and grad once; reads residual once more on a step on
//          which fewer than k/2 came, and on an exact step on which the k-th magnitude
//          has fallen by more than a tenth.
// Paper    Li and Hoefler, "Near-Optimal Sparse Allreduce for Distributed Deep Learning",
//          PPoPP 2022.
// Departs  - Neither the schedule at the start nor any bound is in the published code,
//            which selects up to ten times k in the steps after the first: faithful=1
//            does as it does.
//          - What equals the threshold is selected; the published comparison is strict, so
//            that an exact step selects k - 1.
//          - The published corrections are constants for each workload: they are
//            workload=vgg|lstm|bert. vgg and lstm also raise the threshold within a step,
//            up to five times by 3 %, each time with a pass over the vector; here among
//            what was selected.
//          - Ours (any) knows how fast the count falls with the threshold from how many
//            of the selected are just above it: error feedback piles residuals up there, so
//            the fall is many times steeper than in the gradient, and constants that suit
//            one density swing at another. Half of the error is corrected at once, and a
//            tenth goes into the threshold's steady drift.

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/at_most.h"
#include "core/select.h"
#include "core/threshold_reuse.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

// An exact step looks among all that reach this much of the last threshold.
constexpr float kMargin = 0.9F;

class Reuse final : public Compressor {
 public:
  explicit Reuse(Params& params) : reuse_(core::ThresholdReuse::read(params)) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    out.clear();
    k = std::min(k, residual.size());
    if (k == 0) return core::fold(residual, grad);
    if (k != k_) step_ = next_exact_ = 0;
    k_ = k;
    const bool exact = step_ >= next_exact_;
    if (!sweep(exact, residual, grad, k, out)) return false;
    if (exact) next_exact_ = step_ + (reuse_.faithful ? reuse_.tau_prime : period());
    ++step_;
    if (out.size() > k) cut(k, out);
    if (out.size() != k || (reuse_.faithful && !exact)) {
      correct(k, out.value);
    } else {
      if (!exact) drift_ = 0;  // it had misled us
      threshold_ = core::smallest_magnitude(out.value) * std::exp(drift_);
    }
    return true;
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("threshold", threshold_);
    visitor.field("drift", drift_);
    visitor.field("step", step_);
    visitor.field("next_exact", next_exact_);
    visitor.field("k", k_);
  }

 private:
  bool sweep(bool exact, std::span<float> residual, std::span<float> grad, std::size_t k,
             Sparse& out) {
    if (!exact && reuse_.faithful)
      return core::fold_and_select(residual, grad, threshold_, out);
    const bool finite =
        exact ? core::fold_and_select_at_most(residual, grad, kMargin * threshold_, k, k,
                                              out)
              : core::fold_and_select_at_most(residual, grad, threshold_, k, 2 * k, out);
    if (!finite) return false;
    const std::size_t fewest = exact ? k : (k + 1) / 2;
    return out.size() >= fewest ||
           core::fold_and_select_at_most(residual, {}, 0, k, k, out);
  }

  std::int64_t period() const {
    return std::clamp<std::int64_t>(step_, 1, reuse_.tau_prime);
  }

  // What was selected has all that reach a higher threshold too.
  void cut(std::size_t k, Sparse& out) {
    constexpr int kRaises = 5;
    constexpr float kRaise = 1.03F;
    if (reuse_.cut == 0) return;
    const auto enough = static_cast<std::size_t>(reuse_.cut * static_cast<double>(k));
    float raised = threshold_;
    std::size_t count = out.size();
    for (int raise = 0; raise < kRaises && count > enough; ++raise) {
      raised *= kRaise;
      count = core::count_at_least(out.value, raised);
    }
    if (count == out.size()) return;
    core::keep_largest(out, 2 * count < k && !reuse_.faithful ? k : count);
    threshold_ = raised;
  }

  void correct(std::size_t k, std::span<const float> selected) {
    const double ratio = static_cast<double>(selected.size()) / static_cast<double>(k);
    const core::ThresholdReuse::Control& control = reuse_.local;
    if (control.lower == 0 && selected.empty()) {
      threshold_ /= 2;  // steepness has nothing to go by
    } else if (control.lower == 0) {
      const float error = static_cast<float>(std::log(ratio)) / steepness(selected);
      drift_ = std::clamp(drift_ + 0.1F * error, -0.1F, 0.1F);
      threshold_ *= std::exp(0.5F * error + drift_);
    } else if (ratio < control.low) {
      threshold_ /= static_cast<float>(control.lower);
    } else if (ratio > control.high) {
      threshold_ *= static_cast<float>(control.raise);
    }
  }

  // By how many percent the count falls when the threshold rises by one. The one that is
  // always added keeps a handful of coordinates from looking flat.
  float steepness(std::span<const float> selected) const {
    constexpr float kNear = 1.0F / 64;
    const std::size_t near =
        selected.size() - core::count_at_least(selected, (1 + kNear) * threshold_);
    const float share =
        static_cast<float>(near + 1) / static_cast<float>(selected.size());
    return std::max(share / kNear, 1.0F);
  }

  const core::ThresholdReuse reuse_;
  float threshold_ = 0;
  float drift_ = 0;        // of the threshold's logarithm, from step to step
  std::int64_t step_ = 0;  // since k last changed
  std::int64_t next_exact_ = 0;
  std::uint64_t k_ = 0;  // of the last step
};

}  // namespace

std::unique_ptr<Compressor> reuse(const Layout&, Params& params) {
  return std::make_unique<Reuse>(params);
}

}  // namespace topknot::compressor

// SPDX-License-Identifier: Apache-2.0
//
// reuse: a threshold that is found exactly now and then, and corrected in between.
//
// The k-th magnitude moves slowly, so it is found on a few steps only, and on the others
// one sweep takes all that reach it. After each of these the threshold is corrected by
// how many came. This is the selection of Ok-Topk; the collective oktopk has the rest.
//
// The exact steps are 0, 1, 2, 4, 8, ... and then every tau_prime: at the start the debt
// grows from nothing, and a threshold that is right on one step is far too low on the
// next.
//
// Promise  exactly k on exact steps; between k/2 and 2k on every other, whatever happens
//          to the gradient: where the threshold would give more or fewer, the k largest
//          are selected instead, and give the new threshold.
// Cost     reads acc and grad once and writes acc once; reads acc once more on a step on
//          which fewer than k/2 came, and on an exact step on which the k-th magnitude
//          has fallen by more than a tenth.
// Paper    Li and Hoefler, "Near-Optimal Sparse Allreduce for Distributed Deep Learning",
//          PPoPP 2022.
// Departs  - Neither the schedule at the start nor any bound is in the published code,
//            which selects up to ten times k in the steps after the first.
//          - The published corrections are constants for each workload: they are
//            workload=vgg|lstm|bert. vgg and lstm also raise the threshold within a step,
//            up to five times by 3 %, each time with a pass over the vector; here among
//            what was selected.
//          - Ours (any) knows how fast the count falls with the threshold from how many
//            of the selected are just above it: error feedback piles debts up there, so
//            the fall is many times steeper than in the gradient, and constants that suit
//            one density swing at another. Half of the error is corrected at once, and a
//            tenth goes into the threshold's steady drift.

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/at_most.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

// An exact step looks among all that reach this much of the last threshold.
constexpr float kMargin = 0.9F;

/// The published constants of one workload.
struct Control {
  std::int64_t tau_prime;
  double low;     // below low * k the threshold is divided by `factor`
  double high;    // above high * k it is multiplied by it
  double factor;  // 0: ours instead
  double cut;     // within a step, raise it while more than cut * k came; 0: never
};

Control control_for(const std::string& workload) {
  if (workload == "vgg") return {32, 2.0 / 3, 5.0 / 4, 1.012, 4.0 / 3};
  if (workload == "lstm") return {32, 3.0 / 4, 5.0 / 4, 1.012, 3.0 / 2};
  if (workload == "bert") return {128, 4.0 / 5, 5.0 / 4, 1.025, 0};
  return {32, 1, 1, 0, 0};
}

class Reuse final : public Compressor {
 public:
  explicit Reuse(Params& params)
      : control_(control_for(params.choice("workload", {"any", "vgg", "lstm", "bert"},
                                           "whose constants correct the threshold"))),
        tau_prime_(params.integer("tau_prime", control_.tau_prime, 1, 1 << 20,
                                  "steps between exact thresholds")) {}

  bool select(std::span<float> acc, std::span<const float> grad, std::size_t k,
              Sparse& out) override {
    out.clear();
    k = std::min(k, acc.size());
    if (k == 0) return core::fold(acc, grad);
    const bool exact = step_ >= next_exact_;
    const bool finite =
        exact ? core::fold_and_select_at_most(acc, grad, kMargin * threshold_, k, k, out)
              : core::fold_and_select_at_most(acc, grad, threshold_, k, 2 * k, out);
    if (!finite) return false;
    const std::size_t fewest = exact ? k : (k + 1) / 2;
    if (out.size() < fewest && !core::fold_and_select_at_most(acc, {}, 0, k, k, out))
      return false;

    if (exact) next_exact_ = step_ + std::clamp<std::int64_t>(step_, 1, tau_prime_);
    ++step_;
    if (out.size() > k) cut(k, out);
    if (out.size() != k) {
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
  }

 private:
  // What was selected has all that reach a higher threshold too.
  void cut(std::size_t k, Sparse& out) {
    constexpr int kRaises = 5;
    constexpr float kRaise = 1.03F;
    if (control_.cut == 0) return;
    const auto enough = static_cast<std::size_t>(control_.cut * static_cast<double>(k));
    float raised = threshold_;
    std::size_t count = out.size();
    for (int raise = 0; raise < kRaises && count > enough; ++raise) {
      raised *= kRaise;
      count = core::count_at_least(out.value, raised);
    }
    if (count == out.size()) return;
    core::keep_largest(out, 2 * count < k ? k : count);
    threshold_ = raised;
  }

  void correct(std::size_t k, std::span<const float> selected) {
    const double ratio = static_cast<double>(selected.size()) / static_cast<double>(k);
    if (control_.factor == 0) {
      const float error = static_cast<float>(std::log(ratio)) / steepness(selected);
      drift_ = std::clamp(drift_ + 0.1F * error, -0.1F, 0.1F);
      threshold_ *= std::exp(0.5F * error + drift_);
    } else if (ratio < control_.low) {
      threshold_ /= static_cast<float>(control_.factor);
    } else if (ratio > control_.high) {
      threshold_ *= static_cast<float>(control_.factor);
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

  const Control control_;
  const std::int64_t tau_prime_;
  float threshold_ = 0;
  float drift_ = 0;  // of the threshold's logarithm, from step to step
  std::int64_t step_ = 0;
  std::int64_t next_exact_ = 0;
};

}  // namespace

std::unique_ptr<Compressor> reuse(const Layout&, Params& params) {
  return std::make_unique<Reuse>(params);
}

}  // namespace topknot::compressor

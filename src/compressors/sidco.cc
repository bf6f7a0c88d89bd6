// SPDX-License-Identifier: Apache-2.0
//
// sidco: a threshold from a distribution fitted to magnitudes, and again to their tail.
//
//   stage 1   fit all magnitudes; the threshold t that a quarter of them should reach
//   stage s   fit what the magnitudes that reach t have beyond the smallest of them; the
//             next t is what a share q of these should reach, with q such that all stages
//             together come to k/n
//   adapt     every five steps: too few selected (0.8 k or less, by the fit alone), one
//             stage more; too many (1.2 k), one less; and the other way round from then
//             on if that made it worse
//
// One stage fits the bulk and guesses the tail; many fit the tail, but each is off by a
// little. Three distributions: exponential; gamma for stage 1 with generalised Pareto in
// the tail; generalised Pareto throughout, by the method of moments.
//
// Promise  between k/2 and 2k coordinates, on every step. Where the fit ends outside,
//          exactly k, ties to the lower index. Adaptation brings it to 0.8 k .. 1.2 k
//          where some number of stages does.
// Cost     reads and writes residual and grad once; with two stages or more it also
//          copies a quarter of the magnitudes out and reads them again. Three more reads
//          of residual when the scale has changed much. Memory for a third of the coordinates.
// Paper    Abdelmoniem, Elzanaty, Alouini, Canini, "An Efficient Statistical-based
//          Gradient Compression Technique for Distributed Training Systems", MLSys 2021.
// Departs  In the published code all tensors share one number of stages; a generalised
//          Pareto with shape near zero, equal magnitudes, zeros and an empty tail end in
//          NaN or an exception; the gradient is normalised first, which changes nothing.
//          Its scripts run one stage without adapting: stages=1.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/magnitudes.h"
#include "core/quantile.h"
#include "core/select.h"
#include "core/shortlist.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

constexpr double kFirstShare = 0.25;
constexpr std::int64_t kWindow = 5;  // steps between adaptations
constexpr double kTooFew = 0.8;
constexpr double kTooMany = 1.2;
constexpr float kTailMargin = 0.97F;
constexpr double kAnyError = 1;  // ratios are at most 2, so none is further off

double exponential_quantile(double mean, double q) { return -mean * std::log(q); }

/// The generalised Pareto distribution with these moments. Its shape goes to zero for an
/// exponential, and beyond all bounds for equal magnitudes, which are all at the mean.
double pareto_quantile(double mean, double variance, double q) {
  const double ratio = mean * mean / variance;
  if (!(ratio < 1e12)) return mean;
  const double scale = 0.5 * mean * (ratio + 1);
  const double shape = 0.5 * (ratio - 1);
  if (std::abs(shape) < 1e-9) return exponential_quantile(scale, q);
  return -scale * std::expm1(shape * std::log(q)) / shape;
}

/// The gamma distribution with this mean and mean logarithm, nearly the likeliest.
double fitted_gamma_quantile(double mean, double mean_log, double q) {
  const double s = std::log(mean) - mean_log;
  if (!(s > 1e-12)) return mean;  // all magnitudes are equal
  const double shape = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  return mean / shape * core::gamma_quantile(shape, q);
}

class Sidco final : public Compressor {
 public:
  explicit Sidco(Params& params)
      : dist_(params.choice("dist", {"exp", "gamma", "gpareto"},
                            "what the magnitudes are taken to follow")),
        fixed_(params.integer("stages", 0, 0, 32, "how many fits; 0 adapts the number")),
        stages_(std::max<std::int64_t>(fixed_, 1)) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    k = std::min(k, residual.size());
    out.clear();
    if (k == 0) return core::fold(residual, grad);
    Seen seen;
    tail_.clear();
    const double density = static_cast<double>(k) / static_cast<double>(residual.size());
    const std::int64_t stages = density < kFirstShare ? stages_ : 1;
    if (!list_.fold(residual, grad, k, out, [&](std::span<const float> block) {
          look_at(block, stages > 1, seen);
        }))
      return false;
    const float threshold = estimate(residual, seen, density, stages);
    const std::size_t count = core::count_at_least(out.value, threshold);
    if (fixed_ == 0) adapt(count, k, density);
    if (core::within_twice(count, k)) {
      list_.cut(threshold, out);
    } else {
      list_.cut_to(k, out);
    }
    return true;
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("stages", stages_);
    visitor.field("steps", steps_);
    visitor.field("ratios", ratios_);
    visitor.field("last_error", last_error_);
    visitor.field("direction", direction_);
  }

 private:
  struct Seen {
    core::Moments moments;  // of magnitudes; their squares for gpareto alone
    core::LogSum logs;      // for gamma alone
  };

  void look_at(std::span<const float> block, bool tail, Seen& seen) {
    if (dist_ == "gpareto") {
      core::add_to(seen.moments, core::moments(block));
    } else {
      seen.moments.sum_magnitude += core::sum_of_magnitudes(block);
    }
    if (dist_ == "gamma") seen.logs.add(block);
    if (tail) core::append_magnitudes(block, tail_floor_, tail_);
  }

  float estimate(std::span<const float> residual, const Seen& seen, double density,
                 std::int64_t stages) {
    float threshold = core::as_threshold(
        first_stage(seen, residual.size(), stages == 1 ? density : kFirstShare));
    if (stages == 1) return threshold;

    const double q = std::pow(density / kFirstShare, 1 / static_cast<double>(stages - 1));
    if (threshold < tail_floor_) {  // the sweep has not listed all of the tail
      tail_.clear();
      core::append_magnitudes(residual, threshold, tail_);
    }
    tail_floor_ = kTailMargin * threshold;
    for (std::int64_t stage = 2; stage <= stages; ++stage) {
      if (stage > 2) core::keep_at_least(threshold, tail_);
      const core::Tail tail = core::tail(tail_, threshold);
      if (tail.count == 0) break;
      threshold = core::as_threshold(next_stage(tail, q));
    }
    return threshold;
  }

  double first_stage(const Seen& seen, std::size_t n, double q) const {
    const auto size = static_cast<double>(n);
    const double mean = seen.moments.sum_magnitude / size;
    if (dist_ == "exp") return exponential_quantile(mean, q);
    if (dist_ == "gpareto")
      return pareto_quantile(mean, seen.moments.sum_square / size - mean * mean, q);
    // Zeros have no logarithm: the fit is to the others, of which the share is larger.
    const auto others = static_cast<double>(seen.logs.count());
    if (q * size >= others) return 0;
    return fitted_gamma_quantile(mean * size / others, seen.logs.sum() / others,
                                 q * size / others);
  }

  double next_stage(const core::Tail& tail, double q) const {
    const double mean = tail.sum / tail.count;
    const double excess = mean - static_cast<double>(tail.smallest);
    const double variance = tail.square / tail.count - mean * mean;
    return static_cast<double>(tail.smallest) +
           (dist_ == "exp" ? exponential_quantile(excess, q)
                           : pareto_quantile(excess, variance, q));
  }

  void adapt(std::size_t count, std::size_t k, double density) {
    // Beyond 2k the count is whatever has been listed.
    ratios_ += static_cast<double>(std::min(count, 2 * k)) / static_cast<double>(k);
    if (++steps_ < kWindow) return;
    const double ratio = ratios_ / static_cast<double>(kWindow);
    steps_ = 0;
    ratios_ = 0;
    const double error = std::abs(ratio - 1);
    if (ratio >= kTooFew && ratio <= kTooMany) {
      last_error_ = kAnyError;
      return;
    }
    if (error > last_error_) direction_ = -direction_;
    last_error_ = error;
    const std::int64_t most =
        std::max<std::int64_t>(1, std::llround(std::ceil(-std::log2(density))));
    std::int64_t next = stages_ + (ratio < 1 ? direction_ : -direction_);
    if (next < 1 || next > most) {
      direction_ = -direction_;
      next = stages_ + (ratio < 1 ? direction_ : -direction_);
    }
    stages_ = std::clamp<std::int64_t>(next, 1, most);
  }

  const std::string dist_;
  const std::int64_t fixed_;
  std::int64_t stages_;
  std::int64_t steps_ = 0;         // of this window
  double ratios_ = 0;              // their sum in this window
  double last_error_ = kAnyError;  // of the last window that led to a change
  std::int64_t direction_ = 1;     // 1: more stages select more
  core::Shortlist list_;
  std::vector<float> tail_;
  float tail_floor_ = std::numeric_limits<float>::infinity();  // what the sweep lists
};

}  // namespace

std::unique_ptr<Compressor> sidco(const Layout&, Params& params) {
  return std::make_unique<Sidco>(params);
}

}  // namespace topknot::compressor

// SPDX-License-Identifier: Apache-2.0
//
// adtopk_threshold: the largest of every row, in turn with top-k whose threshold is reused
// for as long as it does not move.
//
// The even steps go over rows, as adtopk's do. On the odd ones, over all of the bucket:
//
//   warm up   exact top-k until step 15; the threshold is the k-th magnitude
//   monitor   every tau steps exact top-k again: by how much has the threshold moved?
//   update    by less than a twentieth, tau += 2; a tenth, tau += 1; by more than a
//             fifth, tau -= 2; a tenth, tau -= 1; but never below 5
//   reuse     otherwise everything at least as large as the threshold. Where fewer than
//             k/2 or more than 2k are, the step becomes one of the monitor's.
//
// All intervals count all steps, those over rows among them. With `steps`, the length of
// the run, its whole last quarter goes over rows once the monitor has last found the
// threshold moved by less than a tenth.
//
// tau and steps belong to the job. The published tau is 5 for ResNets, 10 for VGG, 20 for
// LSTMs and BERT and 5 for all else; `topknot train` gives that of its model and the
// length of its run. Whoever makes a compressor by hand gives them itself.
//
// Promise  a step over rows gives what adtopk's does; every other between k/2 and 2k
//          coordinates, exactly k on those of the warm-up and of the monitor. Ties to the
//          lower index.
// Cost     reads and writes residual and grad once, in nearly all steps.
// Paper    Ming et al., "ADTopk: All-Dimension Top-k Compression for High-Performance
//          Data-Parallel DNN Training", HPDC 2024.
// Departs  The published code cannot run. Repaired: magnitudes are compared, where it
//          forgot the negative half; the larger changes of tau can be reached; tau
//          belongs to the bucket; steps are counted since the last exact one, by the
//          compressor itself; a tenth is of the threshold before, where it stayed that of
//          the warm-up; and ranks may differ in what kind of step they take, since all
//          send pairs. Rows or all is decided by bucket, as in adtopk.

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/rows.h"
#include "core/select.h"
#include "core/shortlist.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

constexpr std::uint64_t kShortestTau = 5;
constexpr std::uint64_t kLongestTau = 1'000'000;

class AdTopKThreshold final : public Compressor {
 public:
  AdTopKThreshold(const Layout& layout, Params& params)
      : rows_(layout),
        interleave_(params.flag("interleave", true,
                                "rows on even steps; 0: not before the last quarter")),
        warm_(params.integer("warm", 15, 1, 1'000'000, "exact steps at the start")),
        run_(params.integer("steps", 0, 0, 1'000'000'000,
                            "of the run, whose last quarter is over rows; 0: unknown")),
        tau_(params.integer("tau", 5, kShortestTau, kLongestTau,
                            "steps from one exact step to the next, at first")) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    k = std::min(k, residual.size());
    ++steps_;
    ++reused_;
    out.clear();
    if (k == 0) return core::fold(residual, grad);
    if (over_rows() && residual.size() == rows_.size())
      return rows_.select(residual, grad, k, out, k == expected_k_ ? density_ : 0);
    if (!list_.fold(residual, grad, k, out, [](std::span<const float>) {})) return false;
    if (!warming() && reused_ < tau_ &&
        core::within_twice(core::count_at_least(out.value, threshold_), k)) {
      list_.cut(threshold_, out);
    } else {
      update(list_.cut_to(k, out));
    }
    return true;
  }

  void expect(std::size_t k, double density) override {
    expected_k_ = k;
    density_ = density;
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("steps", steps_);
    visitor.field("reused", reused_);
    visitor.field("tau", tau_);
    visitor.field("steady", steady_);
    visitor.field("threshold", threshold_);
  }

 private:
  bool warming() const { return steps_ <= warm_; }
  bool over_rows() const {
    if (interleave_ && steps_ % 2 == 1) return true;
    return steady_ != 0 && run_ > 0 && !warming() && steps_ > run_ / 4 * 3;
  }

  void update(float threshold) {
    const float moved = std::abs(threshold - threshold_);
    const float tenth = threshold_ / 10;
    threshold_ = threshold;
    reused_ = 0;
    if (warming()) return;
    steady_ = moved < tenth ? 1 : 0;
    if (moved < tenth / 2) {
      tau_ += 2;
    } else if (moved < tenth) {
      tau_ += 1;
    } else if (moved > 2 * tenth) {
      tau_ -= 2;
    } else if (moved > tenth) {
      tau_ -= 1;
    }
    tau_ = std::clamp(tau_, kShortestTau, kLongestTau);
  }

  core::Rows rows_;
  core::Shortlist list_;
  const bool interleave_;
  const std::uint64_t warm_;
  const std::uint64_t run_;
  std::uint64_t steps_ = 0;   // this one included
  std::uint64_t reused_ = 0;  // steps since the last exact one, this one included
  std::uint64_t tau_;
  std::uint64_t steady_ = 0;  // 1: the threshold had moved by less than a tenth
  float threshold_ = 0;
  std::size_t expected_k_ = 0;
  double density_ = 0;  // that expected_k_ was rounded from; 0: nobody has told
};

}  // namespace

std::unique_ptr<Compressor> adtopk_threshold(const Layout& layout, Params& params) {
  return std::make_unique<AdTopKThreshold>(layout, params);
}

}  // namespace topknot::compressor

// SPDX-License-Identifier: Apache-2.0
//
// adam: each rank takes its own step of Adam, and the residual is in units of weights.
//
// Behind the exchange Adam sees a lump of T gradients every T steps. Its root mean square is
// then 1/sqrt(T) of the lump's, so the coordinate moves sqrt(density) as far as under dense
// training; and the largest gradients are not the largest moves, so the wrong coordinates
// are selected. Here Adam comes first, and its moves are selected and agreed on:
//
//   step     m  <-  beta1 m + (1 - beta1) g        v  <-  beta2 v + (1 - beta2) g^2
//            move  =  gain rate m' / (sqrt(v') + eps)      m', v' corrected for bias
//   join     residual  <-  residual + move
//   settle   the collective agrees on some coordinates and takes them out
//   mask     m  <-  0 where this rank's residual was settled, unless coordinates wait no
//            longer than the mean lasts (first_moment.h)
//
// Masking has a price where a coordinate is hit rarely, as a row of an embedding is: it is
// settled soon after, and most of that one move is taken away. docs/accuracy.md has figures.
//
// The mean of Adams is not Adam of the mean: v holds the noise of one rank's batch, P times
// that of the mean gradient, so where noise dominates the moves are sqrt(P) too small. gain
// makes up for it: "sqrt" is sqrt(P), "none" is 1.
//
// m is kept with the next m beside it (first_moment.h), so that a step that is not finite
// leaves it alone. v is moved in place, as far as its values are finite:
// the squares of a gradient that was finite on this rank stay in it, which can only make
// later moves smaller. A gradient whose square is not finite counts as not finite.
//
// Cost    16 bytes a coordinate: residual, m, next m and v. One pass in before(), which
//         reads m, v and the gradient and writes all three; O(k) in after().
// Paper   Kingma and Ba, "Adam", ICLR 2015, for the step. Local steps of Adam under error
//         feedback are those of SparseLoCo (arXiv 2508.15706) with one step to a round;
//         masking is DGC's (ICLR 2018).

#include <cmath>
#include <memory>
#include <vector>

#include "core/adam.h"
#include "memory/first_moment.h"
#include "topknot/catalog.h"

namespace topknot::memory {
namespace {

class Adam final : public Memory {
 public:
  Adam(const Layout& layout, Params& params)
      : beta1_(params.number("beta1", 0.9, 0, 1, "memory of the mean")),
        beta2_(params.number("beta2", 0.999, 0, 1, "memory of the squares")),
        epsilon_(
            static_cast<float>(params.number("eps", 1e-8, 0, 1, "added to the root"))),
        correct_(params.flag("correct", true, "correct the bias of the first steps")),
        masking_(params.flag("masking", true,
                             "set the mean to zero where the residual was settled")),
        gain_(params.choice("gain", {"sqrt", "none"},
                            "factor for the noise of one rank: sqrt(ranks), or 1") ==
              "sqrt"),
        mean_(layout.size()),
        square_(layout.size()),
        residual_(layout.size()) {}

  void before(std::span<float> grad, const LocalStep& step) override {
    const auto t = static_cast<double>(steps_ + 1);
    const double scale1 = correct_ ? 1 - std::pow(beta1_, t) : 1;
    const double scale2 = correct_ ? 1 - std::pow(beta2_, t) : 1;
    const double gain = gain_ ? std::sqrt(static_cast<double>(step.ranks)) : 1;
    core::adam_move(grad, mean_.now(), mean_.next(), square_,
                    {.beta1 = static_cast<float>(beta1_),
                     .beta2 = static_cast<float>(beta2_),
                     .epsilon = epsilon_,
                     .rate = static_cast<float>(gain * step.learning_rate / scale1),
                     .root = static_cast<float>(1 / std::sqrt(scale2))});
  }

  std::span<float> residual() override { return residual_; }

  void after(const Reduced& reduced) override {
    ++steps_;
    mean_.accept();
    if (masking_ &&
        waits_longer_than_it_lasts(reduced.settled.size(), mean_.size(), beta1_))
      mean_.mask(reduced.settled);
  }

  void undo_step() override {
    --steps_;
    mean_.undo_step();
  }

  Units units() const noexcept override { return Units::updates; }
  bool only_keeps_residual() const noexcept override { return false; }

  std::uint64_t bytes() const noexcept override {
    return mean_.bytes() + 2 * residual_.size() * sizeof(float);
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.coordinates("residual", residual_);
    visitor.estimates("mean", mean_.now());
    visitor.estimates("square", square_);
    visitor.field("steps", steps_);
  }

 private:
  const double beta1_;
  const double beta2_;
  const float epsilon_;
  const bool correct_;
  const bool masking_;
  const bool gain_;
  std::uint64_t steps_ = 0;
  FirstMoment mean_;
  std::vector<float> square_;
  std::vector<float> residual_;
};

}  // namespace

std::unique_ptr<Memory> adam(const Layout& layout, Params& params) {
  return std::make_unique<Adam>(layout, params);
}

}  // namespace topknot::memory

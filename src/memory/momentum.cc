// SPDX-License-Identifier: Apache-2.0
//
// momentum: each rank takes its own step of SGD with momentum, and the residual is in units
// of weights.
//
// An optimizer behind the exchange sees rare lumps: a coordinate that is sent once in a
// hundred steps arrives as the sum of a hundred gradients, and momentum then carries it on
// for ten more steps in an old direction, while the ranks collect more. Here the
// momentum comes before the residual, the learning rate of its own step is inside it, and
// the mean that the ranks agree on is subtracted from the weights as it is:
//
//   step     u  <-  momentum u + g
//            move  =  rate u                       rate (g + momentum u) with nesterov
//   join     residual  <-  residual + move
//   settle   the collective agrees on some coordinates and takes them out
//   mask     u  <-  0 where this rank's residual was settled: what u still holds there
//            has been applied, and would be applied again in an old direction. Not where
//            coordinates wait no longer than the momentum lasts (first_moment.h)
//
// A rate that changes does not touch what was collected before. When everything is settled
// nothing is masked, and the result is SGD with momentum on the mean gradient: momentum is
// linear.
//
// Cost    12 bytes a coordinate: residual, u, and the next u. One pass in before(), which
//         reads u and the gradient and writes both; O(k) in after().
// Paper   Lin et al., "Deep Gradient Compression", ICLR 2018, for momentum before the
//         residual and masking; Li and Hoefler, PPoPP 2022, Algorithm 2, for the rate
//         inside the residual.
// Departs DGC's residual is in units of gradients, so a residual that was collected at
//         the low rates of a warm-up is applied at the high rate after it.

#include <memory>
#include <vector>

#include "memory/first_moment.h"
#include "topknot/catalog.h"

namespace topknot::memory {
namespace {

class Momentum final : public Memory {
 public:
  Momentum(const Layout& layout, Params& params)
      : momentum_(static_cast<float>(
            params.number("momentum", 0.9, 0, 1, "share of the last move"))),
        nesterov_(params.flag("nesterov", false, "look one move ahead")),
        masking_(params.flag("masking", true,
                             "set the velocity to zero where the residual was settled")),
        velocity_(layout.size()),
        residual_(layout.size()) {}

  void before(std::span<float> grad, const LocalStep& step) override {
    const auto rate = static_cast<float>(step.learning_rate);
    nesterov_ ? advance<true>(grad, rate) : advance<false>(grad, rate);
  }

  std::span<float> residual() override { return residual_; }

  void after(const Reduced& reduced) override {
    velocity_.accept();
    if (masking_ &&
        waits_longer_than_it_lasts(reduced.settled.size(), velocity_.size(), momentum_))
      velocity_.mask(reduced.settled);
  }

  void undo_step() override { velocity_.undo_step(); }

  Units units() const noexcept override { return Units::updates; }
  bool only_keeps_residual() const noexcept override { return false; }

  std::uint64_t bytes() const noexcept override {
    return velocity_.bytes() + residual_.size() * sizeof(float);
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.coordinates("residual", residual_);
    visitor.estimates("velocity", velocity_.now());
  }

 private:
  template <bool kNesterov>
  void advance(std::span<float> grad, float rate) {
    const float momentum = momentum_;
    const float* const old = velocity_.now().data();
    float* const next = velocity_.next().data();
    for (std::size_t i = 0; i < grad.size(); ++i) {
      const float g = grad[i];
      const float u = momentum * old[i] + g;
      next[i] = u;
      grad[i] = rate * (kNesterov ? g + momentum * u : u);
    }
  }

  const float momentum_;
  const bool nesterov_;
  const bool masking_;
  FirstMoment velocity_;
  std::vector<float> residual_;
};

}  // namespace

std::unique_ptr<Memory> momentum(const Layout& layout, Params& params) {
  return std::make_unique<Momentum>(layout, params);
}

}  // namespace topknot::memory

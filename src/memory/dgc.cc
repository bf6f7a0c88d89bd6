// SPDX-License-Identifier: Apache-2.0
//
// dgc: momentum before sparsifying, instead of after it.
//
// An optimizer with momentum would apply it to gradients that come late and in lumps.
// Here every rank has its own velocity u, and it is the velocity that joins the residual v:
//
//   clip     g  <-  g * min(1, clip / |g|)
//   correct  u  <-  momentum u + g                 v  <-  v + u
//            u  <-  momentum (u + g)               v  <-  v + u + g       (nesterov)
//   mask     u  <-  0 where the residual was settled: the old direction would be stale there
//
// The optimizer behind it must have no momentum of its own.
//
// When everything was settled, by a dense sum or because k was n, nothing is masked: the
// result is plain momentum on the mean gradient. That is what training before or without
// sparsifying is to do, so this memory is at work with a dense collective too.
//
// u is kept with the next u beside it (first_moment.h), so that a step that is not finite
// leaves it alone: u, the next u and v are 12 bytes a coordinate. For the same
// reason a step that went through here and is refused because of another bucket leaves u as
// it was, bit for bit; what it added to v stays there, as with every memory that keeps a
// residual.
//
// clip is this rank's own threshold on the norm of its gradient in the bucket. The paper
// has the global threshold divided by the square root of the number of ranks; a memory
// knows neither. The engine does, with EngineOptions::clip: see Recipe::clipped().
//
// Cost    one pass in before(): reads u and the gradient, writes both. One more read of
//         the gradient with clip. O(k) in after().
// Paper   Lin et al., "Deep Gradient Compression", ICLR 2018.
// Departs The paper clips by the norm of the whole gradient, which is known when backward
//         is over and no bucket may have set out before. Here it is by bucket, each with
//         its share of the threshold, so that the whole keeps the paper's bound; the
//         published code does it by tensor. It is off in every published configuration,
//         and two of its forms return nothing. The optimizer keeps a momentum for
//         weight decay alone, as the published one does (sgd:momentum_of=decay). With 16-bit
//         values the published code clears the residual and then rounds, so the rounding error
//         is lost: here the collective keeps it.

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "core/stats.h"
#include "memory/first_moment.h"
#include "topknot/catalog.h"

namespace topknot::memory {
namespace {

class Dgc final : public Memory {
 public:
  Dgc(const Layout& layout, Params& params)
      : momentum_(static_cast<float>(
            params.number("momentum", 0.9, 0, 1, "what is left of the velocity"))),
        nesterov_(params.flag("nesterov", false, "look ahead by one gradient")),
        masking_(params.flag("masking", true,
                             "stop the velocity where the residual was settled")),
        clip_(params.number("clip", 0, 0, std::numeric_limits<float>::max(),
                            "the longest gradient of this rank; 0 is any")),
        velocity_(layout.size()),
        residual_(layout.size()) {}

  void before(std::span<float> grad, const LocalStep&) override {
    const float scale = clipping(grad);
    nesterov_ ? advance<true>(grad, scale) : advance<false>(grad, scale);
  }

  std::span<float> residual() override { return residual_; }

  void after(const Reduced& reduced) override {
    velocity_.accept();
    if (masking_ && reduced.settled.size() < velocity_.size())
      velocity_.mask(reduced.settled);
  }

  void undo_step() override { velocity_.undo_step(); }

  bool only_keeps_residual() const noexcept override { return false; }

  std::uint64_t bytes() const noexcept override {
    return velocity_.bytes() + residual_.size() * sizeof(float);
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.coordinates("residual", residual_);
    visitor.coordinates("velocity", velocity_.now());
  }

 private:
  template <bool kNesterov>
  void advance(std::span<float> grad, float scale) {
    const float momentum = momentum_;
    const float* const old = velocity_.now().data();
    float* const next = velocity_.next().data();
    for (std::size_t i = 0; i < grad.size(); ++i) {
      const float g = scale * grad[i];
      const float u = kNesterov ? momentum * (old[i] + g) : momentum * old[i] + g;
      next[i] = u;
      grad[i] = kNesterov ? u + g : u;
    }
  }

  // A nonfinite norm scales nothing: the collective finds the value.
  float clipping(std::span<const float> grad) const {
    if (clip_ == 0) return 1;
    const double norm = std::sqrt(core::moments(grad).sum_square);
    return std::isfinite(norm) && norm > clip_ ? static_cast<float>(clip_ / norm) : 1.0F;
  }

  const float momentum_;
  const bool nesterov_;
  const bool masking_;
  const double clip_;
  FirstMoment velocity_;
  std::vector<float> residual_;
};

}  // namespace

std::unique_ptr<Memory> dgc(const Layout& layout, Params& params) {
  return std::make_unique<Dgc>(layout, params);
}

}  // namespace topknot::memory

// SPDX-License-Identifier: Apache-2.0
//
// residual: keeps what was not sent and adds it to the next gradient. This is error
// feedback: every coordinate is applied in the end, only later, and that is what makes
// sending one in a hundred converge.
//
// decay < 1 forgets a part of the residual with every step that goes through, as SparseLoCo
// does (0.95 there). A nonfinite step leaves the residual alone. Whether a step goes through
// is known only when all buckets are reduced, so the residual decays when it is next read.
//
// lr=inside has the residual in units of learning rate times gradient, as in Ok-Topk's
// Algorithm 2: what is sent late is applied at the learning rate in effect when it was added.
// The stored residual stays in units of the gradient, as collectives expect; so when the rate
// changes from a to b, it is multiplied by a / b before the step. A rate of 0 applies nothing
// and changes nothing. lr=outside applies the rate of the step that sends.
//
// Cost    nothing; a pass over the residual for each step with decay, and for each step on
//         which the rate has changed with lr=inside.
// Paper   Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Stich et
//         al., "Sparsified SGD with Memory", NeurIPS 2018.

#include <memory>
#include <vector>

#include "core/plant.h"
#include "topknot/catalog.h"

namespace topknot::memory {
namespace {

class Residual final : public Memory {
 public:
  Residual(const Layout& layout, Params& params)
      : decay_(static_cast<float>(params.number(
            "decay", 1, 0, 1, "what is left of the residual after each step"))),
        inside_(
            params.choice(
                "lr", {"outside", "inside"},
                "scale the residual by the learning rate in effect when it was added") ==
            "inside"),
        residual_(layout.size()) {}

  void before(std::span<float>, const LocalStep& step) override {
    decay_if_due();
    const double learning_rate = step.learning_rate;
    if (!inside_ || !(learning_rate > 0)) return;
    if (last_rate_ > 0 && learning_rate != last_rate_)
      scale(static_cast<float>(last_rate_ / learning_rate));
    if (!TOPKNOT_PLANT(rate_of_the_first_step_kept) || last_rate_ == 0)
      last_rate_ = learning_rate;
  }

  std::span<float> residual() override {
    decay_if_due();
    return residual_;
  }

  void after(const Reduced&) override { decay_is_due_ = decay_ != 1; }
  void undo_step() override { decay_is_due_ = TOPKNOT_PLANT(refused_step_decays); }

  std::uint64_t bytes() const noexcept override {
    return residual_.size() * sizeof(float);
  }

  void visit_state(StateVisitor& visitor) override {
    decay_if_due();
    visitor.coordinates("residual", residual_);
    visitor.field("last_rate", last_rate_);
  }

 private:
  void decay_if_due() {
    if (decay_is_due_) scale(decay_);
    decay_is_due_ = false;
  }

  void scale(float factor) {
    for (float& x : residual_) x *= factor;
  }

  const float decay_;
  const bool inside_;
  bool decay_is_due_ = false;  // of the last step, which may still be refused
  double last_rate_ = 0;       // 0 before the first step
  std::vector<float> residual_;
};

}  // namespace

std::unique_ptr<Memory> residual(const Layout& layout, Params& params) {
  return std::make_unique<Residual>(layout, params);
}

}  // namespace topknot::memory

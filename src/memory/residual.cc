// SPDX-License-Identifier: Apache-2.0
//
// residual: owes what was not sent and adds it to the next gradient. This is error
// feedback: every coordinate is applied in the end, only later, and that is what makes
// sending one in a hundred converge.
//
// Paper   Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Stich et
//         al., "Sparsified SGD with Memory", NeurIPS 2018.

#include <memory>
#include <vector>

#include "topknot/catalog.h"

namespace topknot::memory {
namespace {

class Residual final : public Memory {
 public:
  explicit Residual(const Layout& layout) : debt_(layout.size()) {}

  void before(std::span<float>, double) override {}
  std::span<float> debt() override { return debt_; }
  void after(const Reduced&) override {}
  void visit_state(StateVisitor& visitor) override { visitor.coordinates("debt", debt_); }

 private:
  std::vector<float> debt_;
};

}  // namespace

std::unique_ptr<Memory> residual(const Layout& layout, Params&) {
  return std::make_unique<Residual>(layout);
}

}  // namespace topknot::memory

// SPDX-License-Identifier: Apache-2.0
//
// none: forgets what was not sent. The residual is zero at the start of every step, so a
// sparse collective with this memory drops most of the gradient: it exists for dense
// training and to show what error feedback is for.

#include <algorithm>
#include <memory>
#include <vector>

#include "topknot/catalog.h"

namespace topknot::memory {
namespace {

class None final : public Memory {
 public:
  explicit None(const Layout& layout) : residual_(layout.size()) {}

  void before(std::span<float>, const LocalStep&) override {}
  std::span<float> residual() override { return residual_; }
  void after(const Reduced&) override {
    std::fill(residual_.begin(), residual_.end(), 0.0F);
  }
  void undo_sum(std::span<const std::uint32_t>, std::span<const float>) override {}
  std::uint64_t bytes() const noexcept override {
    return residual_.size() * sizeof(float);
  }
  void visit_state(StateVisitor&) override {}

 private:
  std::vector<float> residual_;
};

}  // namespace

std::unique_ptr<Memory> none(const Layout& layout, Params&) {
  return std::make_unique<None>(layout);
}

}  // namespace topknot::memory

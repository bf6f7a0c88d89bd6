// SPDX-License-Identifier: Apache-2.0
//
// threshold: everything at least as large as a threshold that never changes.
//
// The simplest compressor, and the fastest: one sweep, no choice to make. The threshold
// is given, or it is the k-th magnitude of the first step that has one. Gradients shrink
// and residuals grow while a model trains, so the count drifts away from k; the compressors
// that follow the gradient exist because of that.
//
// Promise  none on the count, but for the step that fixes the threshold, which gives k.
// Cost     reads and writes residual and grad once.
// Paper    Strom, "Scalable Distributed DNN Training Using Commodity GPU Cloud
//          Computing", Interspeech 2015.
// Departs  There only a sign is sent of what reaches the threshold, as plus or minus the
//          threshold itself, and the rest stays in the residual; here the value is sent. Another
//          published code takes 1 / (2 sqrt k) for every gradient; that is value= here.

#include <limits>
#include <memory>

#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

class Threshold final : public Compressor {
 public:
  explicit Threshold(Params& params)
      : threshold_(static_cast<float>(params.number(
            "value", 0, 0, std::numeric_limits<float>::max(),
            "the threshold; 0 takes the k-th magnitude of the first step"))) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    if (threshold_ > 0) return core::fold_and_select(residual, grad, threshold_, out);
    core::ExactTopK exact;
    const bool finite = exact.select(residual, grad, k, out);
    if (finite && !out.empty()) threshold_ = exact.threshold();
    return finite;
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("threshold", threshold_);
  }

 private:
  float threshold_;
};

}  // namespace

std::unique_ptr<Compressor> threshold(const Layout&, Params& params) {
  return std::make_unique<Threshold>(params);
}

}  // namespace topknot::compressor

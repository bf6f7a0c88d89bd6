// SPDX-License-Identifier: Apache-2.0
//
// topk: exactly the k largest magnitudes.
//
// The idea every other compressor approximates. Usually it is the slow one: torch.topk
// takes ten times as long as adding the gradient. Here it is one sweep (core/select.h):
// the residual changes little from step to step, so everything above nine tenths or so of the
// last threshold is kept aside while the gradient is folded in, and the k largest are
// chosen among these few. When the threshold fell by more than that, a second sweep makes
// up for it.
//
// Promise  exactly min(k, n) coordinates, ties to the lower index, on every step.
// Cost     reads and writes residual and grad once, in nearly all steps; O(k)
//          besides.
// Paper    Aji and Heafield, "Sparse Communication for Distributed Gradient Descent",
//          EMNLP 2017.
// Departs  There the threshold comes from a small sample, so that the count is near k; here
//          it is exact. The published codes leave the order of ties to the device, so ranks
//          may differ in it, and rank NaN above all. The single sweep is ours.

#include <memory>

#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

class TopK final : public Compressor {
 public:
  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    return exact_.select(residual, grad, k, out);
  }

 private:
  core::ExactTopK exact_;
};

}  // namespace

std::unique_ptr<Compressor> topk(const Layout&, Params&) {
  return std::make_unique<TopK>();
}

}  // namespace topknot::compressor

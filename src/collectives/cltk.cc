// SPDX-License-Identifier: Apache-2.0
//
// cltk: one rank in turn selects positions; every rank sends its residual there.
//
//   select   on one rank, the leader, about k coordinates of its residual; elsewhere fold
//   share    the leader's positions, down a tree
//   sum      everyone's values there, in rank order
//   settle   clear the residual there, on every rank, and write the sum
//
// It rests on residuals being alike: what is large on one rank is large on the others. Only
// the leader selects, so the selection costs a rank one step in P.
//
// Cost    (ceil(log2 P) + 2(P-1)) alpha + 3k(P-1)/P beta on average, beta per 32-bit
//         word, before coding.
// Bound   the busiest rank, the leader, sends at most k ceil(log2 P) + 2k'(P-1)/P words,
//         k' = k rounded up to a multiple of P, on any input and every step, headers
//         apart. Everyone leads in turn, so over P steps each sends 3k(P-1)/P words a
//         step. The cap is the cut of the leader's selection to its k largest; what it
//         leaves out stays in the residual.
// Keeps   in the residual what the leader did not select; with rounded values each rank
//         what its own rounding took off.
// Paper   Chen et al., "ScaleCom: Scalable Sparsified Gradient Compression for
//         Communication-Efficient Distributed Training", NeurIPS 2020 (cyclic local
//         top-k).
// Departs In the published code everyone selects and all but the leader throw it away. A
//         compressor that keeps something from step to step sees every P-th step only.
//         ScaleCom's low-pass filter on the residual would be part of a memory; no memory
//         here has it.

#include <memory>
#include <vector>

#include "collectives/primitives/cost.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/shared_index_sum.h"
#include "collectives/primitives/step_guard.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class CltK final : public Collective {
 public:
  CltK(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "cltk", params), compressor_(compressor) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    const int leader =
        static_cast<int>(step_++ % static_cast<std::uint64_t>(channel_.size()));
    select(leader, residual, grad, k);
    agreed_.follow(channel_, leader, mine_.index, residual.size(), k);
    return agreed_.settle(guard_, residual, grad, sum);
  }

  void visit_state(StateVisitor& visitor) override { visitor.field("step", step_); }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    std::vector<CostPhase> phases = cost.rank_order_sum(k);
    phases.push_back(cost.rounds(cost.positions(k, n)));
    return phases;
  }

 private:
  void select(int leader, ResidualVector& residual, std::span<float> grad,
              std::size_t k) {
    if (channel_.rank() != leader) return guard_.fold(residual, grad);
    guard_.select(compressor_, residual, grad, k, mine_);
    core::keep_largest(mine_, k);
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  std::uint64_t step_ = 0;

  SharedIndexSum agreed_;
  Sparse mine_;  // the leader's
};

}  // namespace

std::unique_ptr<Collective> cltk(Transport& link, Compressor& compressor, const Layout&,
                                 Params& params) {
  return std::make_unique<CltK>(link, compressor, params);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// micro: each rank selects in an equal part of its own.
//
//   fold    the gradient into the residual; select what is large inside one of P equal parts
//   agree   on exactly k positions in all (exclusive_select.h)
//   share   the positions, round a ring
//   sum     everyone's values there, in rank order
//   settle  clear the residual there, on every rank, and write the sum
//
// exdyna without its moving parts: on step t rank r looks at part (t + r) mod P of the
// vector, cut evenly. Where large gradients sit together one message is longer than the
// others; the bound holds all the same.
//
// Cost    as exdyna: (3(P-1) + 2 ceil(log2 P)) alpha + 3k(P-1)/P beta on average, beta
//         per 32-bit word, before coding, and the counters of the agreement.
// Bound   as exdyna: the busiest rank sends at most k' + 2k'(P-1)/P words, k' = k rounded
//         up to a multiple of P, on any input and every step, agreement and headers
//         apart. The cap is the agreement's cut to k; what it leaves out stays in the
//         residual.
// Keeps   in the residual what was not agreed on, and what rounding took off.
// Paper   Yoon and Oh, "MiCRO: Near-Zero Cost Gradient Sparsification for Scaling and
//         Accelerating Distributed DNN Training", HiPC 2023.
// Departs as exdyna: exactly k from the first step on, where the published threshold
//         settles near 0.91 k after a cold start (controller=published); no padding, no
//         position sent only to have one; P = 1, n < P and k = 0 work.

#include <memory>
#include <vector>

#include "collectives/primitives/cost.h"
#include "collectives/primitives/exclusive_select.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/shared_index_sum.h"
#include "collectives/primitives/step_guard.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class Micro final : public Collective {
 public:
  Micro(Transport& link, Params& params)
      : channel_(link, "micro", params), select_(params) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    take_turns(residual.size());
    const Region mine = regions_[at(channel_.rank())];
    select_.run(guard_, residual, grad, mine, k, mine_);
    agreed_.gather(channel_, mine_.index, regions_, select_.most(residual.size(), k));
    const Reduced reduced = agreed_.settle(guard_, residual, grad, sum);
    if (reduced.finite) select_.learn(agreed_.size(), k);
    ++step_;
    return reduced;
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("step", step_);
    select_.visit_state(visitor);
  }

  bool needs_host() const noexcept override { return true; }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    const double ranks = channel_.size();
    std::vector<CostPhase> phases = cost.rank_order_sum(k);
    phases.push_back(cost.allgather(cost.positions(k / ranks, n / ranks)));
    phases.push_back(cost.global_topk(k));
    return phases;
  }

 private:
  void take_turns(std::uint64_t n) {
    const auto ranks = static_cast<std::uint64_t>(channel_.size());
    regions_.clear();
    for (std::uint64_t rank = 0; rank < ranks; ++rank)
      regions_.push_back(
          equal_region(n, channel_.size(), static_cast<int>((step_ + rank) % ranks)));
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  ExclusiveSelect select_;
  std::uint64_t step_ = 0;

  SharedIndexSum agreed_;
  Sparse mine_;
  std::vector<Region> regions_;  // by rank
};

}  // namespace

std::unique_ptr<Collective> micro(Transport& link, Compressor&, const Layout&,
                                  Params& params) {
  return std::make_unique<Micro>(link, params);
}

}  // namespace topknot::collective

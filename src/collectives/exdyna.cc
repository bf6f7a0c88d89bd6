// SPDX-License-Identifier: Apache-2.0
//
// exdyna: each rank selects in a part of its own, and the parts follow the gradient.
//
//   fold       the gradient into the residual; select what is large inside one of P parts
//   agree      on exactly k positions in all (exclusive_select.h)
//   share      the positions, round a ring
//   sum        everyone's values there, in rank order
//   settle     clear the residual there, on every rank, and write the sum
//   rebalance  the parts: they are runs of 1024 blocks, and a block moves from a part
//              that found much to a neighbour that found little
//
// Parts go round: on step t rank r looks at part (t + r) mod P. So a coordinate is judged
// by one rank a step and by all within P steps; the sum at the agreed positions is exact.
// Balance makes the ranks' messages equally long, and with controller=published also the
// work; no bound depends on it.
//
// Cost    (3(P-1) + 2 ceil(log2 P)) alpha + 3k(P-1)/P beta on average, beta per 32-bit
//         word, before coding, and the counters of the agreement: two rounds on most
//         steps, which are at most k/4 words for k >= 512 ceil(log2 P). The sweep looks
//         at n/P coordinates and folds the rest.
// Bound   with k' = k rounded up to a multiple of P the busiest rank sends at most
//         k' + 2k'(P-1)/P words, on any input and every step, agreement and headers
//         apart:
//         - share: over all ranks at most k positions are agreed on, and in a ring no
//           rank sends a block twice;
//         - sum: that many values are cut into P equal pieces, of which a rank sends all
//           but its own, and then all but its neighbour's.
//         The cap is the agreement's cut to k. It is in order of magnitude, so no part is
//         starved by a share that it must not exceed, as with a cap of k/P for each rank;
//         what it leaves out stays in the residual.
// Keeps   in the residual what was not agreed on; with rounded values each rank what its
//         own rounding took off, of what it sent and of the piece that it summed.
// Paper   Yoon and Oh, "Preserving Near-Optimal Gradient Sparsification Cost for Scalable
//         Distributed Deep Learning" (ExDyna), CCGrid 2024.
// Departs - The published threshold rule settles near 0.91 k and starts at 1 /
//           (2 sqrt k) for every gradient: a start that is ten times off takes 462 steps
//           to correct. Ours selects exactly k from the first step on;
//           controller=published keeps theirs, without a cap and so without the bound.
//         - Blocks are a multiple of 32 coordinates when there are enough, otherwise as
//           even as can be: the published ones are empty below 32768 coordinates. What
//           rounding leaves over is spread, not given to the last part.
//         - Lists are gathered without padding, and empty ones are legal: nobody sends a
//           position only to have one. P = 1, n < P and k = 0 work.
//         - Values are summed in rank order, not by the transport's own allreduce, so the
//           bits are the same everywhere.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
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

/// Which blocks make up which part.
class Parts {
 public:
  Parts(std::uint64_t blocks, int parts) : blocks_(blocks), parts_(parts) { deal(); }

  /// The coordinates of `part` in a vector of `n`.
  Region region(std::uint64_t n, int part) const {
    const auto first = blocks_in_.begin();
    const std::uint64_t begin = std::accumulate(first, first + part, std::uint64_t{0});
    return {start(n, begin), start(n, begin + blocks_in_[at(part)])};
  }

  /// The published rule. `found[j]` is how many coordinates part j had; each pair of
  /// neighbours moves one block at most.
  void rebalance(std::vector<double> found) {
    constexpr double kMuch = 1.05;
    constexpr double kLittle = 0.95238;
    const double total = std::accumulate(found.begin(), found.end(), 0.0);
    const double mean = std::floor(total / parts_);
    if (mean < 1) return;
    const double moved = std::floor(total / static_cast<double>(blocks_));
    const std::uint64_t fewest = std::max<std::uint64_t>(1, blocks_ / (4 * found.size()));
    for (std::size_t j = 0; j + 1 < found.size(); ++j) {
      const bool right = found[j] > kMuch * mean && found[j + 1] < kLittle * mean;
      const bool left = found[j] < kLittle * mean && found[j + 1] > kMuch * mean;
      if (!right && !left) continue;
      const std::size_t from = right ? j : j + 1;
      const std::size_t to = right ? j + 1 : j;
      if (blocks_in_[from] <= fewest) continue;
      --blocks_in_[from];
      ++blocks_in_[to];
      found[from] -= moved;
      found[to] += moved;
    }
  }

  void visit_state(StateVisitor& visitor) {
    visitor.field("blocks", blocks_in_);
    if (!is_ours(blocks_in_)) deal();
  }

 private:
  void deal() {
    blocks_in_.clear();
    for (int part = 0; part < parts_; ++part)
      blocks_in_.push_back(equal_region(blocks_, parts_, part).size());
  }

  // Not when it was saved by another number of ranks, or with other blocks.
  bool is_ours(const std::vector<std::uint64_t>& table) const {
    return table.size() == at(parts_) &&
           *std::max_element(table.begin(), table.end()) <= blocks_ &&
           std::accumulate(table.begin(), table.end(), std::uint64_t{0}) == blocks_;
  }

  std::uint64_t start(std::uint64_t n, std::uint64_t block) const {
    constexpr std::uint64_t kAligned = 32;
    const std::uint64_t exact = n * block / blocks_;
    return block == blocks_ || n < kAligned * blocks_ ? exact : exact - exact % kAligned;
  }

  const std::uint64_t blocks_;
  const int parts_;
  std::vector<std::uint64_t> blocks_in_;  // by part
};

class ExDyna final : public Collective {
 public:
  ExDyna(Transport& link, Params& params)
      : channel_(link, "exdyna", params),
        select_(params),
        parts_(static_cast<std::uint64_t>(params.integer(
                   "blocks", 1024, 1, 1 << 20, "into how many blocks the vector is cut")),
               link.size()) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    take_turns(residual.size());
    select_.run(guard_, residual, grad, regions_[at(channel_.rank())], k, mine_);
    agreed_.gather(channel_, mine_.index, regions_, select_.most(residual.size(), k));
    const Reduced reduced = agreed_.settle(guard_, residual, grad, sum);
    if (reduced.finite) rebalance(k);
    ++step_;
    return reduced;
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("step", step_);
    select_.visit_state(visitor);
    parts_.visit_state(visitor);
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
  int part_of(int rank) const {
    const auto ranks = static_cast<std::uint64_t>(channel_.size());
    return static_cast<int>((step_ + static_cast<std::uint64_t>(rank)) % ranks);
  }

  void take_turns(std::uint64_t n) {
    regions_.clear();
    for (int rank = 0; rank < channel_.size(); ++rank)
      regions_.push_back(parts_.region(n, part_of(rank)));
  }

  void rebalance(std::size_t k) {
    select_.learn(agreed_.size(), k);
    std::vector<double> found(agreed_.counts().size());
    for (int rank = 0; rank < channel_.size(); ++rank)
      found[at(part_of(rank))] = static_cast<double>(agreed_.counts()[at(rank)]);
    parts_.rebalance(std::move(found));
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  ExclusiveSelect select_;
  Parts parts_;
  std::uint64_t step_ = 0;

  SharedIndexSum agreed_;
  Sparse mine_;
  std::vector<Region> regions_;  // by rank
};

}  // namespace

std::unique_ptr<Collective> exdyna(Transport& link, Compressor&, const Layout&,
                                   Params& params) {
  return std::make_unique<ExDyna>(link, params);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// topkdsa: the exact sum of all selections, by owners; what has filled up travels dense.
//
//   select   about k coordinates of the residual
//   deal     them to their owners: P equal regions, or every P-th coordinate
//   split    the parts, each rank with each, in turn
//   reduce   each owner merges what it got, in a fixed order
//   share    the sums, round a ring; each owner's as pairs or dense, whichever is shorter
//   settle   take what was sent out of the residual, and write the sum
//
// Ownership. Contiguous regions are the published ones. Gradients are skewed, a layer
// here outweighs a layer there, so one owner may get nearly all of the pairs; with
// owner=strided coordinate i belongs to rank i mod P, at position i / P, which balances
// every skew that is not itself periodic in P, without messages and without state. Zen's
// hashing does that too; this keeps the order, so that positions code as well as before.
//
// The switch. A region of m coordinates of which u are in the sum takes 2u words as pairs
// and m dense, so dense is shorter from u = m/2 on, for each owner by itself. With coded
// positions, or shorter values, the turning point is elsewhere: the lengths of the two
// messages are compared (dense_switch.h).
//
// Cost    2(P-1) alpha + between 4k(P-1)/P beta, when all select the same coordinates,
//         and (2k + n)(P-1)/P beta, when the union fills the vector; beta per 32-bit
//         word, before coding.
// Bound   the busiest rank sends at most 2k + min(2U, n) words, on any input, headers
//         apart, if the compressor gives at most k and the union has U <= kP coordinates:
//         - split: no more pairs than it selected;
//         - share: in a ring no block is sent twice, and no block is longer than its
//           pairs or than its region. This switch is the cap that makes it a theorem.
// Keeps   in the residual what was not selected, nothing else, with f32 values. With
//         rounded ones the sender keeps the error of what it sent, and the owner that of
//         its sums.
// Paper   Renggli et al., "SparCML: High-Performance Sparse Communication for Machine
//         Learning", SC 2019 (SSAR and DSAR split-allgather); "TopkDSA" in Li and
//         Hoefler, PPoPP 2022.
// Departs - What is taken out of the residual is what was sent. The published code sends what
//           exceeds the k-th magnitude and clears what reaches it: the k-th itself, and
//           all its ties, are lost on every step.
//         - The regions' remainder goes to the first n mod P of them, so any n and P fit;
//           the published cuts are wrong from n mod P >= n / P on, and divide by zero for
//           n < P.
//         - The switch is at the true turning point and for each region; theirs is for
//           all at once and at a third of the vector instead of a half.
//         - A sum that cancels is dropped where a region travels dense, and so are no
//           others; SparCML drops all below 1e-8.

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/dense_switch.h"
#include "collectives/primitives/exchange.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/sum_writer.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

/// Who owns which coordinate of [0, n): those of one owner are `stride` apart.
class Ownership {
 public:
  Ownership(std::uint64_t n, int ranks, bool strided)
      : n_(n), ranks_(ranks), stride_(strided ? static_cast<std::uint32_t>(ranks) : 1) {}

  /// How many coordinates `owner` has.
  std::uint64_t size(int owner) const { return equal_region(n_, ranks_, owner).size(); }

  std::uint32_t outside(int owner, std::uint32_t position) const {
    return first(owner) + position * stride_;
  }

  /// Replaces dealt[j] with the pairs that j owns, at the positions they have there.
  void deal(SparseView pairs, std::vector<Sparse>& dealt) const {
    for (Sparse& part : dealt) part.clear();
    if (stride_ > 1) return deal_strided(pairs, dealt);
    std::size_t i = 0;
    for (int owner = 0; owner < ranks_; ++owner) {
      const Region region = equal_region(n_, ranks_, owner);
      const auto begin = static_cast<std::uint32_t>(region.begin);
      for (; i < pairs.size() && pairs.index[i] < region.end; ++i)
        dealt[at(owner)].push_back(pairs.index[i] - begin, pairs.value[i]);
    }
  }

 private:
  std::uint32_t first(int owner) const {
    return static_cast<std::uint32_t>(stride_ > 1
                                          ? static_cast<std::uint64_t>(owner)
                                          : equal_region(n_, ranks_, owner).begin);
  }

  void deal_strided(SparseView pairs, std::vector<Sparse>& dealt) const {
    for (std::size_t i = 0; i < pairs.size(); ++i)
      dealt[pairs.index[i] % stride_].push_back(pairs.index[i] / stride_, pairs.value[i]);
  }

  std::uint64_t n_;
  int ranks_;
  std::uint32_t stride_;
};

class TopkDsa final : public Collective {
 public:
  TopkDsa(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "topkdsa", params),
        compressor_(compressor),
        strided_(params.choice("owner", {"contiguous", "strided"},
                               "equal regions, or every P-th coordinate, against skew") ==
                 "strided") {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    guard_.select(compressor_, residual, grad, k, mine_);
    const Ownership ownership(residual.size(), channel_.size(), strided_);
    split(ownership, residual.size());
    add_up(blocks_, held_);
    share(residual.size());
    if (!channel_.finite()) return guard_.undo(residual, grad);
    settle_residual(ownership, residual);
    return write(ownership, grad, sum);
  }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    const double ranks = channel_.size();
    const double sums = Cost::in_union(n, k, ranks) / ranks;
    return {cost.exchange(cost.pairs(k / ranks, n / ranks)),
            cost.allgather(cost.pairs_or_values(sums, n / ranks))};
  }

 private:
  void split(const Ownership& ownership, std::uint64_t n) {
    dealt_.resize(at(channel_.size()));
    ownership.deal(mine_, dealt_);
    parts_.assign(dealt_.begin(), dealt_.end());
    regions_.clear();
    for (int owner = 0; owner < channel_.size(); ++owner)
      regions_.push_back({0, ownership.size(owner)});
    channel_.enter("split");
    exchange_.run(channel_, parts_, regions_, n, blocks_, errors_);
  }

  void share(std::uint64_t n) {
    channel_.report_unless_finite(held_.value);
    channel_.enter("share");
    sum_error_.clear();
    if (channel_.size() == 1) {
      sums_.resize(1);
      sums_[0] = held_;
      return;
    }
    switch_.code(channel_, held_, regions_[at(channel_.rank())],
                 MessageChannel::kEveryone, message_, sum_error_);
    allgather_.run_coded(channel_, message_, regions_, n, sums_);
    for (int owner = 0; owner < channel_.size(); ++owner)
      drop_filling(regions_[at(owner)].size(), sums_[at(owner)]);
  }

  void settle_residual(const Ownership& ownership, ResidualVector& residual) {
    for (int owner = 0; owner < channel_.size(); ++owner) {
      place(ownership, owner, dealt_[at(owner)].index);
      residual.settle(placed_, errors_[at(owner)]);
    }
    if (sum_error_.empty()) return;
    place(ownership, channel_.rank(), held_.index);
    residual.add({placed_, sum_error_});
  }

  void place(const Ownership& ownership, int owner,
             std::span<const std::uint32_t> positions) {
    placed_.resize(positions.size());
    std::ranges::transform(positions, placed_.begin(), [&](std::uint32_t position) {
      return ownership.outside(owner, position);
    });
  }

  // Every coordinate has one owner, so the owners' sums are the sum.
  Reduced write(const Ownership& ownership, std::span<const float> grad,
                std::span<float> sum) {
    write_disjoint(sums_, grad, sum, index_, [&](int owner) {
      return [&ownership, owner](std::uint32_t position) {
        return ownership.outside(owner, position);
      };
    });
    return {.count = index_.size(), .index = index_, .settled = mine_.index};
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  const bool strided_;

  Exchange exchange_;
  DenseSwitch switch_;
  Allgather allgather_;
  Sparse mine_;
  std::vector<Sparse> dealt_;               // mine, by owner, in the owner's positions
  std::vector<SparseView> parts_;           // the same
  std::vector<Region> regions_;             // by owner
  std::vector<Sparse> blocks_;              // what others sent me, by sender
  std::vector<std::vector<float>> errors_;  // of what I sent, by owner
  Sparse held_;                             // my sums
  Message message_;
  std::vector<float> sum_error_;       // of my sums
  std::vector<Sparse> sums_;           // by owner
  std::vector<std::uint32_t> index_;   // of the sum
  std::vector<std::uint32_t> placed_;  // where an owner's positions lie
};

}  // namespace

std::unique_ptr<Collective> topkdsa(Transport& link, Compressor& compressor,
                                    const Layout&, Params& params) {
  return std::make_unique<TopkDsa>(link, compressor, params);
}

}  // namespace topknot::collective

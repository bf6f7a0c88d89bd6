// SPDX-License-Identifier: Apache-2.0
//
// knot: the exact k largest coordinates of the sum of what was selected, on every step. Our
// own. A coordinate that is large in the sum of all gradients, but that no rank selected,
// is not among them.
//
//   select     at most k coordinates of the residual
//   deal       them to their owners: P parts, balanced whatever the gradient looks like
//   exchange   the parts, each rank with each, in turn
//   add        each owner merges what it got, in a fixed order
//   agree      on which k of all the sums are largest, by counts of bit patterns
//   share      the survivors, each rank with each, or round a ring
//   settle     take out of the residual what was sent and survived, and write the sum
//
// What it improves on in Ok-Topk. There is no threshold that drifts between re-evaluations, no
// step that gathers the whole union, no cold start, no region cut that must be agreed on
// again and no extra balancing move; and indices are coded.
//
// Ownership is block-cyclic and turns with the steps: coordinate i belongs to the rank
// (i / B + step) mod P. It needs no state and no words, it is balanced for every skew
// wider than B * P coordinates, and the position of i among its owner's coordinates, (i /
// (B * P)) * B + i mod B, keeps the order, so indices code as well as before.
//
// GlobalTopK (global_topk.h) is exact: ties go to the lower owner and then to the lower
// coordinate. From step to step it takes two rounds of at most 512 counters; a cold start
// or a jump of scale takes a few rounds more. Up to eight ranks send each other what they
// agree by, so a round is one message long, and they know how many survive at each: where
// none has more than k/(P-1), each sends its survivors to the others by itself.
//
// Cost    for P <= 8 a rank waits four times: for the exchange, twice for the agreement,
//         and for the survivors. Beyond, (2(P-1) + 2 ceil(log2 P)) alpha. 4k(P-1)/P beta
//         on average, beta per 32-bit word, before coding, and the counters: at most k/4
//         words in two rounds, for k >= 512 times the messages of a round. With coded
//         indices a pair of 1 % takes 40.2 bits instead of 64, with bf16 values 24.2.
// Bound   the busiest rank sends at most 4k words, on any input, counters and headers
//         apart:
//         - exchange: no rank selects more than k coordinates (what a compressor gives
//           beyond that is cut to the k largest), so none sends more than k pairs;
//         - share: exactly min(k, all) pairs survive over all ranks, by the agreement,
//           and in a ring no rank sends any block twice, so none sends more than k pairs;
//           nor does one that sends at most k/(P-1) survivors P-1 times.
//         Each is 2k words. On average over the ranks the first is k(P-1)/P pairs when
//         the ownership is balanced, the second is always k(P-1)/P. The cap is the cut
//         to k; what it leaves out stays in the residual. The log schedule has no such
//         bound and is taken by schedule=auto only where headers outweigh the pairs.
// Keeps   in the residual what it did not select, did not send, or what did not survive;
//         with rounded values the sender keeps the error of what it sent, and the owner
//         the error of the sum.
// Paper   none yet: docs/knot.md has the reasoning. Ancestors: Li and Hoefler,
//         "Near-Optimal Sparse Allreduce", PPoPP 2022 (split, reduce, gather), and
//         Renggli et al., "SparCML", SC 2019.

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/cyclic_ownership.h"
#include "collectives/primitives/exchange.h"
#include "collectives/primitives/global_topk.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/route.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/sum_writer.h"
#include "core/merge.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class Knot final : public Collective {
 public:
  Knot(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "knot", params),
        compressor_(compressor),
        schedule_(params.choice("schedule", {"auto", "direct", "log"},
                                "P-1 messages a phase, or log P packets; auto: by k")),
        survive_(
            params.number("survive", 0, 0, 1,
                          "send less until this share of it survives; 0 sends all k")) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    select(residual, grad, k);
    const CyclicOwnership ownership(residual.size(), channel_.size(), step_++);
    deal(ownership);
    exchange(k);
    add_up(blocks_, held_);
    global_topk_.keep_largest(channel_, held_, k);
    share(k);
    if (!channel_.finite()) return guard_.undo(residual, grad);
    settle_residual(ownership, residual);
    return write(ownership, grad, sum);
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("step", step_);
    visitor.field("quota", quota_);
    global_topk_.visit_state(visitor);
  }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    const double ranks = channel_.size();
    const double part = cost.pairs(k / ranks, n / ranks);
    const Route way = route(static_cast<std::size_t>(k));
    const bool ring = way == Route::direct && !GlobalTopK::at_once(channel_.size());
    return {cost.exchange(part, way), cost.global_topk(k),
            cost.allgather(part, ring ? Route::ring : way)};
  }

 private:
  void select(ResidualVector& residual, std::span<float> grad, std::size_t k) {
    guard_.select(compressor_, residual, grad, k, mine_);
    core::keep_largest(mine_, k);
    if (survive_ > 0 && quota_ > 0) core::keep_largest(mine_, std::min(quota_, k));
  }

  void deal(const CyclicOwnership& ownership) {
    ownership.deal(mine_, dealt_);
    regions_.clear();
    for (int owner = 0; owner < channel_.size(); ++owner)
      regions_.push_back({0, ownership.size(owner)});
    parts_.assign(dealt_.begin(), dealt_.end());
  }

  void exchange(std::size_t k) {
    channel_.enter("exchange");
    exchange_.run(channel_, parts_, regions_, k, blocks_, errors_, route(k));
  }

  void share(std::size_t k) {
    channel_.enter("share");
    allgather_.run(channel_, held_, regions_, k, survivors_, sum_error_, share_route(k));
  }

  // Slice by slice of the survivors: what one of them touches stays in the cache.
  void settle_residual(const CyclicOwnership& ownership, ResidualVector& residual) {
    constexpr std::size_t kSlice = 8192;
    settled_.clear();
    for (int owner = 0; owner < channel_.size(); ++owner) {
      const auto outside = ownership.outside(owner);
      const std::span<const std::uint32_t> kept(survivors_[at(owner)].index);
      const bool rounded = owner == channel_.rank() && !sum_error_.empty();
      std::size_t sent = 0;  // how much of the owner's part is settled
      for (std::size_t first = 0; first < kept.size(); first += kSlice) {
        const auto slice = kept.subspan(first, std::min(kSlice, kept.size() - first));
        settle_slice(outside, owner, slice, sent, residual);
        if (!rounded) continue;
        placed_.resize(slice.size());
        std::ranges::transform(slice, placed_.begin(), outside);
        residual.add({placed_, std::span(sum_error_).subspan(first, slice.size())});
      }
    }
    aim(settled_.size());
  }

  // Settles what was sent to `owner`, from `done` on, and is among `kept`; moves `done` behind
  // the last of `kept`.
  void settle_slice(const CyclicOwnership::Outside& outside, int owner,
                    std::span<const std::uint32_t> kept, std::size_t& done,
                    ResidualVector& residual) {
    const std::size_t first = done;
    const auto left =
        std::span<const std::uint32_t>(dealt_[at(owner)].index).subspan(first);
    const auto end = std::ranges::upper_bound(left, kept.back());
    const auto sent = left.first(static_cast<std::size_t>(end - left.begin()));
    done += sent.size();
    core::common_places(sent, kept, places_);
    const std::size_t before = settled_.size();
    settled_.resize(before + places_.size());
    const std::span<std::uint32_t> placed = std::span(settled_).subspan(before);
    std::ranges::transform(places_, placed.begin(),
                           [&](std::uint32_t i) { return outside(sent[i]); });
    const std::span<const float> error(errors_[at(owner)]);
    kept_error_.resize(error.empty() ? 0 : places_.size());
    if (!error.empty()) core::gather(error.subspan(first), places_, kept_error_);
    residual.settle(placed, kept_error_);
  }

  // Sends a little less when too little of it survives, a little more when enough does.
  void aim(std::size_t survived) {
    if (survive_ == 0 || mine_.empty()) return;
    const double share =
        static_cast<double>(survived) / static_cast<double>(mine_.size());
    const auto size = static_cast<double>(mine_.size());
    quota_ = static_cast<std::size_t>(size * (share < survive_ ? 0.97 : 1.03)) + 1;
  }

  // Every coordinate has one owner, so the survivors are the sum.
  Reduced write(const CyclicOwnership& ownership, std::span<const float> grad,
                std::span<float> sum) {
    write_disjoint(survivors_, grad, sum, index_,
                   [&](int owner) { return ownership.outside(owner); });
    return {.count = index_.size(), .index = index_, .settled = settled_};
  }

  Route route(std::size_t k) const {
    const bool headers_outweigh = k < 16 * at(channel_.size() - 1);
    if (schedule_ == "auto") return headers_outweigh ? Route::log : Route::direct;
    return schedule_ == "log" ? Route::log : Route::direct;
  }

  // Directly where that cannot be more than k pairs, which all ranks know alike.
  Route share_route(std::size_t k) const {
    if (route(k) == Route::log) return Route::log;
    const std::span<const std::uint64_t> kept = global_topk_.kept_by();
    const bool balanced =
        !kept.empty() && std::ranges::max(kept) * at(channel_.size() - 1) <= k;
    return balanced ? Route::direct : Route::ring;
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  const std::string schedule_;
  const double survive_;
  std::uint64_t step_ = 0;
  std::uint64_t quota_ = 0;  // what to send at most, where survive_ is set and once known

  Exchange exchange_;
  GlobalTopK global_topk_;
  Allgather allgather_;
  Sparse mine_;
  std::vector<Sparse> dealt_;               // mine, by owner, in the owner's positions
  std::vector<SparseView> parts_;           // the same
  std::vector<Region> regions_;             // by owner
  std::vector<Sparse> blocks_;              // what others sent me, by sender
  std::vector<std::vector<float>> errors_;  // of what I sent, by owner
  Sparse held_;                             // my sums, then those that survive
  std::vector<Sparse> survivors_;           // by owner
  std::vector<float> sum_error_;            // of my survivors
  std::vector<std::uint32_t> index_;        // of the sum
  std::vector<std::uint32_t> places_;       // of survivors, in a slice of what I sent
  std::vector<float> kept_error_;           // of these
  std::vector<std::uint32_t> placed_;       // where a slice of my survivors lies
  std::vector<std::uint32_t> settled_;      // those that were mine
};

}  // namespace

std::unique_ptr<Collective> knot(Transport& link, Compressor& compressor, const Layout&,
                                 Params& params) {
  return std::make_unique<Knot>(link, compressor, params);
}

}  // namespace topknot::collective

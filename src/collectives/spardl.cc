// SPDX-License-Identifier: Apache-2.0
//
// spardl: blocks merged in log P rounds, each cut to its share of k, and gathered.
//
//   select    candidates of the residual, about k, and cut them into a block for each rank
//   scatter   in ceil(log2 P) rounds every block travels to its owner; who passes it on
//             adds its own share first and keeps the kb largest
//   across    teams, where there are some, do the same again, block by block
//   gather    the blocks, in ceil(log2 P) rounds (Bruck)
//   settle    clear what was passed on and is in the sum, add what was dropped here
//
// Spar-Reduce-Scatter, for any number P of ranks: the gaps are the powers of two below P,
// falling. In the round of a gap, rank r sends the blocks r + gap, r + gap + 1, ... (all
// modulo P), min(gap, P - gap) of them, to rank r + gap, whose own and next blocks they
// are. A block that was sent is never received again, and after the last round rank r has
// everything that was sent of block r: each rank's part exactly once, having sent P - 1
// blocks itself.
//
// A block is added to as a sparse vector. At a position that came in, this rank adds its
// residual even if it had not selected it: the position travels anyway.
//
// Residual collection. At a position that is not in the sum every rank keeps its residual. At
// one that is, a rank that handed in its share clears it, and a rank that dropped a part on
// the way, or rounded it off, adds that part to its own residual.
//
// Teams (teams=d). d teams of m = P/d neighbouring ranks each scatter and gather among
// themselves; in between, the d ranks that own the same block in their teams sum it up:
//   r   recursive doubling, cut to kb after each of log2 d rounds; d is a power of two
//   b   Bruck: each gives its h largest to all, and the sum of those is cut to kb. h is
//       steered between kb/d and kb so that the sum has about kb: it grows or shrinks by
//       a stride that doubles while the direction stays and halves when it turns. Ranks
//       may differ in h; nothing relies on it.
// What such ranks drop alike, the one of the lowest team keeps.
//
// Cost    2 ceil(log2 P) alpha + 4k(P-1)/P beta, beta per 32-bit word, before coding.
//         With d teams (2 ceil(log2 m) + ceil(log2 d)) alpha + 4k(m-1)/m beta, and
//         2(k/m) log2 d (r) or 2h(d-1) (b) beta more.
// Bound   no rank sends more than 4k'(P-1)/P words, on any input, headers and the lengths
//         in packets apart, with k' the next multiple of P from k on: in either phase it
//         sends P - 1 blocks, and each has been cut to kb = ceil(k/P) pairs. With teams
//         kb = ceil(k/m): 4kb(m-1) words, and 2kb log2 d or 2kb(d-1) more. The cap is
//         the quota kb; what it leaves out stays in a residual.
// Keeps   in the residual what was not passed on, or is not in the sum; of what is, what
//         this rank dropped and the rounding errors of what it sent.
// Paper   Zhao et al., "SparDL: Distributed Deep Learning Training with Efficient Sparse
//         Communication", ICDE 2024.
// Departs - Candidates come from one selection over the whole vector, not from a dense
//           search of each block before each send: one sweep instead of P - 1 searches
//           and three copies. 2 sqrt(km) more than k are asked for, so that blocks of
//           even load fill their quota; those with fewer candidates send fewer.
//         - A block's quota is ceil(k/P), the same for all; published, the block's length
//           times the density, rounded down, which may be none at all.
//         - All blocks of a round travel in one packet; the published code sends three
//           messages a block, 3(P-1) instead of ceil(log2 P).
//         - What was dropped across teams is kept by one rank, whole, instead of by each
//           member of a team in part: a division that is not exact would lose some.
//         - Any k and n, less than P among them; a number of teams that does not divide P
//           is refused, where the published code leaves ranks out.

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/butterfly.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/dropped_values.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/packet.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/route.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/subgroup.h"
#include "collectives/primitives/sum_writer.h"
#include "core/merge.h"
#include "core/select.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::collective {
namespace {

/// How many pairs a rank gives to the ranks of other teams, so that their sum has about
/// as many as a block may have.
class Giving {
 public:
  std::size_t amount(std::size_t quota, int teams) {
    const std::size_t least = (quota + at(teams) - 1) / at(teams);
    amount_ = amount_ == 0 ? quota : std::clamp<std::uint64_t>(amount_, least, quota);
    return amount_;
  }

  void correct(std::size_t total, std::size_t quota) {
    if (total == quota) return;
    const std::int64_t direction = total < quota ? 1 : -1;
    stride_ = direction == direction_ ? stride_ * 2 : stride_ / 2;
    stride_ = std::clamp<std::uint64_t>(stride_, 1, std::max<std::size_t>(quota, 1));
    direction_ = direction;
    amount_ =
        direction > 0 ? amount_ + stride_ : amount_ - std::min(amount_, stride_ + 1) + 1;
  }

  void visit_state(StateVisitor& visitor) {
    visitor.field("giving", amount_);
    visitor.field("giving_stride", stride_);
    visitor.field("giving_direction", direction_);
  }

 private:
  std::uint64_t amount_ = 0;  // 0 before the first step
  std::uint64_t stride_ = 1;
  std::int64_t direction_ = 0;
};

class SparDL final : public Collective {
 public:
  SparDL(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "spardl", params),
        compressor_(compressor),
        teams_(read_teams(params)),
        doubling_(read_doubling(params, teams_)),
        members_(members_of(link.size(), teams_)),
        inside_(Subgroup::strided(link.rank() / members_ * members_, 1, members_,
                                  link.rank())),
        across_(Subgroup::strided(link.rank() % members_, members_,
                                  link.size() / members_, link.rank())),
        held_(at(members_)),
        joined_(at(members_)) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    dropped_.clear();
    cut_into_blocks(residual.size(), k);
    select(residual, grad, k);
    scatter(residual);
    sum_across_teams();
    gather();
    if (!channel_.finite()) return guard_.undo(residual, grad);
    Reduced reduced = write(grad, sum);
    settle_residual(residual);
    reduced.settled = settled_;
    return reduced;
  }

  void visit_state(StateVisitor& visitor) override { giving_.visit_state(visitor); }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost inside(channel_, members_);
    const Cost across(channel_, teams_);
    const double block = inside.pairs(std::ceil(k / members_), n / members_);
    const CostPhase blocks = inside.allgather(block, Route::log);
    const CostPhase summed =
        doubling_ ? across.rounds(block) : across.allgather(block / teams_, Route::log);
    return {blocks, summed, blocks};
  }

 private:
  static int read_teams(Params& params) {
    return static_cast<int>(params.integer(
        "teams", 1, 1, 1 << 16, "teams of ranks that scatter and gather by themselves"));
  }

  static bool read_doubling(Params& params, int teams) {
    const std::string across =
        params.choice("sag", {"auto", "r", "b"},
                      "sums teams by recursive doubling (2^i teams) or Bruck");
    const bool even = std::has_single_bit(static_cast<unsigned>(teams));
    if (across == "r" && !even)
      throw ConfigError("spardl: sag=r needs a power of two of teams, not " +
                        std::to_string(teams) + "; sag=b takes any number.");
    return even && across != "b";
  }

  // One rank is one team, whatever was asked for: nobody is there to form others with.
  static int members_of(int ranks, int teams) {
    if (ranks == 1) return 1;
    if (ranks % teams != 0)
      throw ConfigError("spardl: " + std::to_string(ranks) + " ranks cannot form " +
                        std::to_string(teams) + " equal teams; allowed are " +
                        divisors_of(ranks) + ".");
    return ranks / teams;
  }

  void cut_into_blocks(std::uint64_t n, std::size_t k) {
    const int blocks = inside_.size();
    quota_ = (k + at(blocks) - 1) / at(blocks);
    cuts_.assign(1, 0);
    regions_.clear();
    for (int block = 0; block < blocks; ++block) {
      regions_.push_back(equal_region(n, blocks, block));
      cuts_.push_back(regions_.back().end);
    }
  }

  void select(ResidualVector& residual, std::span<float> grad, std::size_t k) {
    const double blocks = inside_.size();
    const double more =
        blocks > 1 ? 2 * std::ceil(std::sqrt(static_cast<double>(k) * blocks)) : 0;
    const std::size_t wanted =
        std::min(k + static_cast<std::size_t>(more), residual.size());
    guard_.select(compressor_, residual, grad, wanted, selected_);
    core::split(selected_.index, cuts_, at_cut_);
    for (std::size_t block = 0; block < held_.size(); ++block) {
      held_[block].clear();
      held_[block].append(
          SparseView(selected_).slice(at_cut_[block], at_cut_[block + 1]));
    }
  }

  // ---- Spar-Reduce-Scatter

  void scatter(ResidualVector& residual) {
    channel_.enter("scatter");
    const auto others = static_cast<unsigned>(inside_.size() - 1);
    for (int gap = static_cast<int>(std::bit_floor(others)); gap > 0; gap /= 2)
      scatter_round(residual, gap);
    cut(at(inside_.place()));
  }

  void scatter_round(ResidualVector& residual, int gap) {
    const int count = std::min(gap, inside_.size() - gap);
    const int to = inside_.rank(inside_.member(gap));
    const int from = inside_.rank(inside_.member(-gap));
    for (auto* messages : {&out_, &in_}) messages->resize(at(inside_.size()));
    outgoing_.clear();
    incoming_.clear();
    std::size_t limit = 0;
    for (int i = 0; i < count; ++i) {
      outgoing_.push_back(&out_[at(i)]);
      incoming_.push_back(&in_[at(i)]);
      limit += channel_.limit(quota_, regions_[at(inside_.member(i))].size());
    }
    channel_.start_receive(from, packed_, packet_limit(at(count), limit));
    for (int i = 0; i < count; ++i) {
      const std::size_t block = at(inside_.member(gap + i));
      cut(block);
      channel_.code(held_[block], regions_[block], to, out_[at(i)], error_);
      dropped_.keep_error(held_[block].index, error_);
    }
    pack(outgoing_, pack_);
    channel_.start_send(to, pack_);
    channel_.finish_receive_packet(from);
    unpack(channel_, packed_, from, incoming_);
    for (int i = 0; i < count; ++i) {
      const std::size_t block = at(inside_.member(i));
      channel_.read(in_[at(i)], from, channel_.rank(), regions_[block], quota_, theirs_);
      merge(residual, block);
    }
    channel_.flush();
  }

  // Adds what came in, and this rank's share at positions that are new here.
  void merge(ResidualVector& residual, std::size_t block) {
    Sparse& held = held_[block];
    share_.clear();
    std::set_difference(theirs_.index.begin(), theirs_.index.end(), held.index.begin(),
                        held.index.end(), std::back_inserter(share_.index));
    share_.value.resize(share_.index.size());
    residual.gather(share_.index, share_.value);
    core::add(held, share_, merged_);
    core::add(merged_, theirs_, held);
    channel_.report_unless_finite(held.value);
  }

  // Before a block leaves, and in the end for the own one.
  void cut(std::size_t block) {
    joined_[block] = held_[block].index;
    dropped_.cut(held_[block], quota_);
  }

  // ---- Spar-All-Gather

  void sum_across_teams() {
    if (across_.size() == 1) return;
    channel_.enter("across teams");
    Sparse& own = held_[at(inside_.place())];
    const Region region = regions_[at(inside_.place())];
    if (doubling_)
      return butterfly_.run(channel_, across_, region, quota_, own, dropped_);
    dropped_.cut(own, giving_.amount(quota_, across_.size()));
    same_region_.assign(at(across_.size()), region);
    allgather_.run_among(channel_, across_, own, same_region_, quota_, of_teams_, error_,
                         Route::log);
    dropped_.keep_error(own.index, error_);
    add_up(of_teams_, own);
    channel_.report_unless_finite(own.value);
    giving_.correct(own.size(), quota_);
    // What falls out here is not in the sum, so every rank keeps its own share of it.
    core::keep_largest(own, quota_);
  }

  // The ranks of other teams that own the same block hold the same, and round it alike.
  void gather() {
    channel_.enter("gather");
    const Sparse& own = held_[at(inside_.place())];
    allgather_.run_among(channel_, inside_, own, regions_, quota_, blocks_, error_,
                         Route::log);
    if (across_.place() == 0) dropped_.keep_error(own.index, error_);
  }

  // ---- the end of a step

  Reduced write(std::span<const float> grad, std::span<float> sum) {
    write_disjoint(blocks_, grad, sum, index_,
                   [](int) { return [](std::uint32_t position) { return position; }; });
    return {.count = index_.size(), .index = index_, .settled = {}};
  }

  void settle_residual(ResidualVector& residual) {
    for (std::size_t block = 1; block < joined_.size(); ++block)
      joined_[0].insert(joined_[0].end(), joined_[block].begin(), joined_[block].end());
    core::intersect(joined_[0], index_, settled_);
    residual.settle(settled_, {});
    dropped_.restrict_to(index_);
    dropped_.settle(residual, settled_);
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  const int teams_;
  const bool doubling_;    // how teams are summed up
  const int members_;      // of a team
  const Subgroup inside_;  // my team; member j owns block j
  const Subgroup across_;  // who owns the same block in the other teams
  Giving giving_;

  Allgather allgather_;
  Butterfly butterfly_;
  DroppedValues dropped_;
  std::size_t quota_ = 0;            // the most pairs that a block is sent with
  std::vector<std::uint64_t> cuts_;  // between the blocks
  std::vector<Region> regions_;      // the same
  Sparse selected_;
  std::vector<std::size_t> at_cut_;  // where the cuts are in selected_
  std::vector<Sparse> held_;         // by block, as far as merged
  std::vector<std::vector<std::uint32_t>>
      joined_;  // where my residual is in it, by block
  Sparse theirs_;
  Sparse share_;
  Sparse merged_;
  std::vector<Message> out_;
  std::vector<Message> in_;
  std::vector<const Message*> outgoing_;
  std::vector<Message*> incoming_;
  Message pack_;
  Message packed_;
  std::vector<float> error_;
  std::vector<Region> same_region_;   // my block's, for every team
  std::vector<Sparse> of_teams_;      // of my block, by team
  std::vector<Sparse> blocks_;        // the sum, by block
  std::vector<std::uint32_t> index_;  // of the sum; increases
  std::vector<std::uint32_t> settled_;
};

}  // namespace

std::unique_ptr<Collective> spardl(Transport& link, Compressor& compressor, const Layout&,
                                   Params& params) {
  return std::make_unique<SparDL>(link, compressor, params);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// gtopk: pairs of ranks merge what they hold and keep the k largest, until one set is
// left.
//
//   select    at most k coordinates of the residual
//   merge     in rounds, with the rank whose number differs in one bit: add, keep the k
//             largest; or up a tree to rank 0
//   return    the last set, to the ranks that do not have it
//   settle    clear what was selected, add what this rank dropped, write the sum
//
// A value that is sent leaves its sender's residual. Either it reaches the sum, or some rank
// drops it and adds it to its own residual, which may have been zero there. In the butterfly
// the 2^i ranks that have merged the same sets drop the same values, and only the lowest of
// them keeps them.
//
// A rank beyond the largest power of two hands its selection to a rank below it at the start
// and gets the result from it at the end.
//
// Cost    butterfly: log2 P alpha + 2k log2 P beta, beta per 32-bit word, before coding;
//         where P is not a power of two, two more messages lie on the longest path.
//         tree: 2 ceil(log2 P) alpha + 4k ceil(log2 P) beta on the path through rank 0,
//         which does most of the merging.
// Bound   the busiest rank sends at most 2k ceil(log2 P) words, headers apart, in either
//         schedule, on any input: every message has at most k pairs, since the selection
//         is cut to k and so is every merged set; and no rank sends more than
//         ceil(log2 P) messages. What the cuts leave out stays in a residual.
// Keeps   in the residual what it did not select, and what it dropped of what it held; with
//         rounded values the sender keeps the error of a message, in the butterfly the
//         lowest of those that send the same.
// Paper   Shi et al., "A Distributed Synchronous SGD Algorithm with Global Top-k
//         Sparsification for Low Bandwidth Networks", ICDCS 2019.
// Departs - The published rule clears what is both selected here and in the final set.
//           What was dropped on one branch and came in by another is then lost: 2 to 15 %
//           of what is sent on each step. faithful=1 does that, and drops the errors of
//           rounding too.
//         - Any number of ranks, one among them; the published code needs a power of two,
//           and one rank gets a sum of zeros.
//         - Equal coordinates are added, so that none is listed twice; ties go to the
//           lower position, so that equal sets are cut equally.
//         - Positions and values travel in one message of 8 bytes a pair or less; the
//           published code packs both as 64-bit floats.
//         - The published code sends 0.4 % in the first epoch, whatever the density: here
//           that is a schedule, and the scheme has none.

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "collectives/primitives/broadcast.h"
#include "collectives/primitives/butterfly.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/dropped_values.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/subgroup.h"
#include "collectives/primitives/sum_writer.h"
#include "core/merge.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class GTopk final : public Collective {
 public:
  GTopk(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "gtopk", params),
        compressor_(compressor),
        tree_(params.choice("schedule", {"butterfly", "tree"},
                            "everyone merges, or rank 0 does and returns the sum") ==
              "tree"),
        faithful_(params.flag("faithful", false,
                              "settle as published, which loses gradient")) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    dropped_.clear();
    whole_ = {0, residual.size()};
    most_ = k;
    select(residual, grad, k);
    tree_ ? merge_up_the_tree() : merge_in_the_butterfly();
    if (!channel_.finite()) return guard_.undo(residual, grad);
    settle_residual(residual);
    return write(grad, sum);
  }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    const auto ranks = static_cast<unsigned>(channel_.size());
    const double there_and_back = 2 * cost.log_ranks();
    const double doubling =
        std::bit_width(ranks) - 1 + (std::has_single_bit(ranks) ? 0 : 2);
    return {{tree_ ? there_and_back : doubling, 1, cost.pairs(k, n)}};
  }

 private:
  void select(ResidualVector& residual, std::span<float> grad, std::size_t k) {
    guard_.select(compressor_, residual, grad, k, held_);
    core::keep_largest(held_, k);
    selected_ = held_.index;
  }

  // ---- the butterfly

  void merge_in_the_butterfly() {
    const int me = channel_.rank();
    const auto ranks = static_cast<unsigned>(channel_.size());
    const int even = static_cast<int>(std::bit_floor(ranks));
    channel_.enter("hand in");
    if (me >= even) send(me - even);
    if (me + even < channel_.size()) receive_and_merge(me + even);
    channel_.enter("merge");
    if (me < even)
      butterfly_.run(channel_, Subgroup::strided(0, 1, even, me), whole_, most_, held_,
                     dropped_);
    if (even == channel_.size()) return;
    channel_.enter("return");
    me < even ? return_result(me + even) : receive_result(me - even);
  }

  // All that have the result code it, so that where values are rounded they hold what the
  // ranks that receive it read. All make the same error; rank 0 keeps it.
  void return_result(int to) {
    if (to >= channel_.size() && channel_.values() == core::Values::f32) return;
    channel_.code(held_, whole_, MessageChannel::kEveryone, out_, error_);
    if (to < channel_.size()) channel_.start_send(to, out_);
    if (channel_.rank() == 0) dropped_.keep_error(held_.index, error_);
    if (!error_.empty())
      channel_.read(out_, channel_.rank(), MessageChannel::kEveryone, whole_, most_,
                    held_);
    channel_.flush();
  }

  void receive_result(int from) {
    receive(from);
    channel_.read(in_, from, MessageChannel::kEveryone, whole_, most_, held_);
  }

  // ---- the tree

  // Rank r hands in to r without its lowest bit, having heard from r + bit for the bits
  // below that.
  void merge_up_the_tree() {
    const int me = channel_.rank();
    channel_.enter("merge");
    int bit = 1;
    for (; bit < channel_.size() && (me & bit) == 0; bit *= 2)
      if (me + bit < channel_.size()) receive_and_merge(me + bit);
    if (me != 0) send(me - bit);
    channel_.enter("return");
    broadcast_.run(channel_, 0, whole_, most_, held_, error_);
    // Rank 0 alone has made an error, at the positions that all now hold.
    dropped_.keep_error(held_.index, error_);
  }

  // ---- messages

  void send(int to) {
    channel_.code(held_, whole_, to, out_, error_);
    channel_.start_send(to, out_);
    dropped_.keep_error(held_.index, error_);
    channel_.flush();
  }

  void receive(int from) {
    channel_.start_receive(from, in_, channel_.limit(most_, whole_.size()));
    channel_.finish_receive(from);
  }

  void receive_and_merge(int from) {
    receive(from);
    channel_.read(in_, from, channel_.rank(), whole_, most_, theirs_);
    core::add(held_, theirs_, merged_);
    std::swap(held_, merged_);
    channel_.report_unless_finite(held_.value);
    dropped_.cut(held_, most_);
  }

  // ---- the end of a step

  void settle_residual(ResidualVector& residual) {
    if (faithful_) {
      core::intersect(selected_, held_.index, settled_);
      return residual.settle(settled_, {});
    }
    settled_ = selected_;
    residual.settle(settled_, {});
    dropped_.settle(residual, settled_);
  }

  Reduced write(std::span<const float> grad, std::span<float> sum) const {
    write_sum(held_, grad, sum);
    return {.count = held_.size(), .index = held_.index, .settled = settled_};
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  const bool tree_;
  const bool faithful_;

  Butterfly butterfly_;
  Broadcast broadcast_;
  DroppedValues dropped_;
  Region whole_;
  std::size_t most_ = 0;                 // pairs in any set
  std::vector<std::uint32_t> selected_;  // the positions of what I began with
  Sparse held_;                          // what I have merged so far, then the sum
  Sparse theirs_;
  Sparse merged_;
  Message out_;
  Message in_;
  std::vector<float> error_;
  std::vector<std::uint32_t> settled_;
};

}  // namespace

std::unique_ptr<Collective> gtopk(Transport& link, Compressor& compressor, const Layout&,
                                  Params& params) {
  return std::make_unique<GTopk>(link, compressor, params);
}

}  // namespace topknot::collective

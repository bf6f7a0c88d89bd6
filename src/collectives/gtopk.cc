// SPDX-License-Identifier: Apache-2.0
//
// gtopk: pairs of ranks merge what they hold and keep the k largest, until one set is
// left.
//
//   select    at most k coordinates of the debt
//   merge     in rounds, with the rank whose number differs in one bit: add, keep the k
//             largest; or up a tree to rank 0
//   return    what is left, to those who do not have it
//   settle    clear what was selected, take back what this rank dropped, write the sum
//
// Custody passes with the message. A value that is sent is no longer its sender's affair:
// it reaches the sum, or somebody drops it and then owes it, in a coordinate in which
// that rank may never have owed anything before. In the butterfly the 2^i ranks that have
// merged the same sets drop the same values, and the lowest of them alone keeps them.
//
// Ranks beyond the largest power of two hand their selection to a rank below it at the
// start and are told the result at the end.
//
// Cost    butterfly: log2 P alpha + 2k log2 P beta, beta per 32-bit word, before coding;
//         where P is not a power of two, two more messages lie on the longest path.
//         tree: 2 ceil(log2 P) alpha + 4k ceil(log2 P) beta on the path through rank 0,
//         which does most of the merging.
// Bound   the busiest rank sends at most 2k ceil(log2 P) words, headers apart, in either
//         schedule, on any input: every message has at most k pairs, since the selection
//         is cut to k and so is every merged set; and no rank sends more than
//         ceil(log2 P) messages. What the cuts leave out stays owed.
// Owes    what it did not select, and what it dropped of what it held; with rounded
//         values the sender owes the error of a message, in the butterfly the lowest of
//         those that send the same.
// Paper   Shi et al., "A Distributed Synchronous SGD Algorithm with Global Top-k
//         Sparsification for Low Bandwidth Networks", ICDCS 2019.
// Departs - The published rule spends what is both selected here and in the final set.
//           What was dropped on one branch and came in by another is then lost: 2 to 15 %
//           of what is sent on each step. faithful=1 does that, and forgets the errors of
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

#include "collectives/custody.h"
#include "collectives/primitives.h"
#include "collectives/team.h"
#include "core/merge.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class GTopk final : public Collective {
 public:
  GTopk(Transport& link, Compressor& pick, Params& params)
      : courier_(link, "gtopk", params),
        pick_(pick),
        tree_(params.choice(
                  "schedule", {"butterfly", "tree"},
                  "everyone merges, or all merge towards rank 0 and are told") == "tree"),
        faithful_(params.flag("faithful", false,
                              "spend what was selected and is in the sum, as published: "
                              "loses gradient")) {}

  Reduced reduce(std::span<float> acc, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    courier_.begin(acc.size(), k);
    custody_.clear();
    whole_ = {0, acc.size()};
    most_ = k;
    select(acc, grad, k);
    tree_ ? merge_up_the_tree() : merge_in_the_butterfly();
    if (!courier_.finite()) return courier_.undo(acc, grad);
    settle_debt(acc);
    return write(grad, sum);
  }

 private:
  void select(std::span<float> acc, std::span<float> grad, std::size_t k) {
    courier_.select(pick_, acc, grad, k, held_);
    core::keep_largest(held_, k);
    selected_ = held_.index;
  }

  // ---- the butterfly

  void merge_in_the_butterfly() {
    const int me = courier_.rank();
    const auto ranks = static_cast<unsigned>(courier_.size());
    const int even = static_cast<int>(std::bit_floor(ranks));
    courier_.enter("hand in");
    if (me >= even) send(me - even);
    if (me + even < courier_.size()) receive_and_merge(me + even);
    courier_.enter("merge");
    if (me < even)
      butterfly_.run(courier_, {.size = even, .place = me}, whole_, most_, held_,
                     custody_);
    if (even == courier_.size()) return;
    courier_.enter("return");
    me < even ? return_result(me + even) : receive_result(me - even);
  }

  // All that have the result code it, so that where values are rounded they have it as
  // those read it who are told; the error, everyone's the same, is rank 0's.
  void return_result(int to) {
    if (to >= courier_.size() && courier_.values() == core::Values::f32) return;
    courier_.code(held_, whole_, Courier::kEveryone, out_, error_);
    if (to < courier_.size()) courier_.start_send(to, out_);
    if (courier_.rank() == 0) custody_.keep_error(held_.index, error_);
    if (!error_.empty())
      courier_.read(out_, courier_.rank(), Courier::kEveryone, whole_, most_, held_);
    courier_.flush();
  }

  void receive_result(int from) {
    receive(from);
    courier_.read(in_, from, Courier::kEveryone, whole_, most_, held_);
  }

  // ---- the tree

  // Rank r hands in to r without its lowest bit, having heard from r + bit for the bits
  // below that.
  void merge_up_the_tree() {
    const int me = courier_.rank();
    courier_.enter("merge");
    int bit = 1;
    for (; bit < courier_.size() && (me & bit) == 0; bit *= 2)
      if (me + bit < courier_.size()) receive_and_merge(me + bit);
    if (me != 0) send(me - bit);
    courier_.enter("return");
    broadcast_.run(courier_, 0, whole_, most_, held_, error_);
    // Rank 0 alone has made an error, at the positions that all now hold.
    custody_.keep_error(held_.index, error_);
  }

  // ---- messages

  void send(int to) {
    courier_.code(held_, whole_, to, out_, error_);
    courier_.start_send(to, out_);
    custody_.keep_error(held_.index, error_);
    courier_.flush();
  }

  void receive(int from) {
    courier_.start_receive(from, in_, courier_.limit(most_, whole_.size()));
    courier_.finish_receive(from);
  }

  void receive_and_merge(int from) {
    receive(from);
    courier_.read(in_, from, courier_.rank(), whole_, most_, theirs_);
    core::add(held_, theirs_, merged_);
    std::swap(held_, merged_);
    report_overflow(courier_, held_);
    custody_.cut(held_, most_);
  }

  // ---- the end of a step

  void settle_debt(std::span<float> acc) {
    if (faithful_) {
      core::intersect(selected_, held_.index, paid_);
      return core::erase(paid_, acc);
    }
    paid_ = selected_;
    core::erase(paid_, acc);
    custody_.settle(acc, paid_);
  }

  Reduced write(std::span<const float> grad, std::span<float> sum) const {
    if (sum.data() == grad.data()) std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::size_t i = 0; i < held_.size(); ++i) sum[held_.index[i]] = held_.value[i];
    return {.count = held_.size(), .index = held_.index, .paid = paid_};
  }

  Courier courier_;
  Compressor& pick_;
  const bool tree_;
  const bool faithful_;

  Butterfly butterfly_;
  Broadcast broadcast_;
  Custody custody_;
  Region whole_;
  std::size_t most_ = 0;                 // pairs in any set
  std::vector<std::uint32_t> selected_;  // the positions of what I began with
  Sparse held_;                          // what I have merged so far, then the sum
  Sparse theirs_;
  Sparse merged_;
  Message out_;
  Message in_;
  std::vector<float> error_;
  std::vector<std::uint32_t> paid_;
};

}  // namespace

std::unique_ptr<Collective> gtopk(Transport& link, Compressor& pick, const Layout&,
                                  Params& params) {
  return std::make_unique<GTopk>(link, pick, params);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// ssar: the exact sum of all selections, by recursive doubling. For small messages.
//
//   select   about k coordinates of the residual
//   fold     the ranks above the largest power of two hand theirs to one below
//   double   log2 P times: swap what is held with the rank across, and add
//   return   the sum to the ranks that had folded
//   settle   take what was sent out of the residual, and write the sum
//
// Both sides of a swap add the same two sets, and a + b is b + a to the last bit, so both
// hold the same; after i rounds that is true of all 2^i ranks that have been in contact.
//
// Rounding. A rank replaces its own set with what the other side reads of it, else the two
// would differ. After i rounds 2^i ranks code the same set, and all make the same error. It
// is missing from the sum once, so only the lowest of them keeps it. The sum is coded once
// more when there are ranks to return it to: then every rank takes it as those read it, and
// rank 0 keeps the error.
//
// Cost    log2 P alpha, two more where P is not a power of two; between 2k log2 P beta,
//         when all select the same, and 2k(P-1) beta; beta per 32-bit word, before
//         coding. Use topkdsa where words outweigh messages.
// Bound   with P a power of two the busiest rank sends at most 2k(P-1) words, headers
//         apart, if the compressor gives at most k: in round i it holds no more than 2^i
//         selections. Otherwise up to twice as many meet in a round, and the result is
//         sent once more: below 6kP. No message is longer than the vector (see
//         dense_switch.h), so n words a message are a bound as well.
// Keeps   in the residual what was not selected, nothing else, with f32 values; with
//         rounded ones the errors above.
// Paper   Renggli et al., "SparCML: High-Performance Sparse Communication for Machine
//         Learning", SC 2019 (SSAR_Recursive_double).
// Departs - The published fold pairs neighbours; ours folds rank r onto r - 2^q. It is as
//           many messages, and the ranks in the rounds need no other numbers.
//         - Sets travel dense from the true turning point on, which the published rule
//           takes from an upper bound, the lengths of both sets together.
//         - The published sends are never completed, and their memory is freed meanwhile.

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "collectives/primitives/cost.h"
#include "collectives/primitives/dense_switch.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/sum_writer.h"
#include "core/merge.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class Ssar final : public Collective {
 public:
  Ssar(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "ssar", params),
        compressor_(compressor),
        even_(static_cast<int>(std::bit_floor(static_cast<unsigned>(link.size())))),
        extra_(link.size() - even_) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    guard_.select(compressor_, residual, grad, k, mine_);
    held_ = mine_;
    region_ = {0, residual.size()};
    errors_.clear();
    fold();
    double_up();
    give_back();
    if (!channel_.finite()) return guard_.undo(residual, grad);
    settle_residual(residual);
    return write(grad, sum);
  }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    const auto bytes = [&](double selections) {
      return cost.pairs_or_values(Cost::in_union(n, k, selections), n);
    };
    std::vector<CostPhase> phases;
    double merged = 1;
    for (; 2 * merged <= channel_.size(); merged *= 2)
      phases.push_back({1, 1, bytes(merged)});
    if (merged == channel_.size()) return phases;
    phases.push_back({1, 1, bytes(1)});
    phases.push_back({1, 1, bytes(channel_.size())});
    return phases;
  }

 private:
  bool folds() const { return channel_.rank() >= even_; }
  bool has_folded() const { return channel_.rank() < extra_; }
  int across() const { return channel_.rank() ^ even_; }  // for those two

  void fold() {
    channel_.enter("fold");
    if (folds()) {
      code_held(across(), /*keeps_error=*/true);
      channel_.start_send(across(), sent_);
      channel_.flush();
    } else if (has_folded()) {
      receive(across(), channel_.rank(), theirs_);
      add_theirs();
    }
  }

  void double_up() {
    channel_.enter("double");
    if (folds()) return;
    for (int bit = 1; bit < even_; bit *= 2) {
      const int peer = channel_.rank() ^ bit;
      const bool lowest = channel_.rank() % bit == 0;
      code_held(peer, /*keeps_error=*/lowest);
      channel_.start_send(peer, sent_);
      receive(peer, channel_.rank(), theirs_);
      channel_.flush();
      add_theirs();
    }
  }

  void give_back() {
    channel_.enter("return");
    if (extra_ == 0) return;
    if (folds()) return receive(across(), MessageChannel::kEveryone, held_);
    code_held(MessageChannel::kEveryone, /*keeps_error=*/channel_.rank() == 0);
    if (has_folded()) channel_.start_send(across(), sent_);
    channel_.flush();
  }

  // Codes what is held, and replaces it with what the reader will have.
  void code_held(int to, bool keeps_error) {
    const bool dense = switch_.code(channel_, held_, region_, to, sent_, error_);
    if (keeps_error && !error_.empty()) errors_.push_back({held_.index, error_});
    if (dense || !error_.empty()) read(sent_, channel_.rank(), to, held_);
  }

  void receive(int from, int to, Sparse& pairs) {
    channel_.start_receive(from, received_,
                           channel_.limit(region_.size(), region_.size()));
    channel_.finish_receive(from);
    read(received_, from, to, pairs);
  }

  void read(const Message& message, int from, int to, Sparse& pairs) {
    channel_.read(message, from, to, region_, region_.size(), pairs);
    drop_filling(region_.size(), pairs);
  }

  // Everyone in contact adds the same two sets, and so finds the same overflow.
  void add_theirs() {
    core::add(held_, theirs_, added_);
    std::swap(held_, added_);
    channel_.report_unless_finite(held_.value);
  }

  void settle_residual(ResidualVector& residual) const {
    residual.settle(mine_.index, {});
    for (const Sparse& error : errors_) residual.add(error);
  }

  Reduced write(std::span<const float> grad, std::span<float> sum) const {
    write_sum(held_, grad, sum);
    return {.count = held_.size(), .index = held_.index, .settled = mine_.index};
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  const int even_;   // the largest power of two that is not above P
  const int extra_;  // how many ranks are above it

  DenseSwitch switch_;
  Region region_;  // the whole vector
  Sparse mine_;
  Sparse held_;  // the sum over the ranks that have been in contact
  Sparse theirs_;
  Sparse added_;
  Message sent_;
  Message received_;
  std::vector<float> error_;
  std::vector<Sparse> errors_;  // of what was sent, where this rank keeps them
};

}  // namespace

std::unique_ptr<Collective> ssar(Transport& link, Compressor& compressor, const Layout&,
                                 Params& params) {
  return std::make_unique<Ssar>(link, compressor, params);
}

}  // namespace topknot::collective

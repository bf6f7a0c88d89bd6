// SPDX-License-Identifier: Apache-2.0
//
// oktopk: split and reduce, then balance and gather; six k words at most.
//
//   select       about k coordinates of the residual; the rest is cut off
//   repartition  every tau steps: cuts that share out the selected coordinates evenly
//   split        every rank's selection by region, to the regions' owners, in turn
//   reduce       each owner merges what it got
//   choose       the sums above a global threshold: found exactly every tau_prime steps,
//                reused and corrected in between, and never more than k of them
//   balance      when one owner has more than four times its share, even out what is held
//   share        what was chosen, round a ring
//   settle       take out of the residual what was both sent and chosen, and write the sum
//
// Cost    (2P + 2 log2 P) alpha + at most 6k(P-1)/P beta in the paper; 4k(P-1)/P where
//         the balancing move is not needed, beta per 32-bit word, before coding.
// Bound   the busiest rank sends at most 6k words, on any input, agreement and headers
//         apart: split at most k pairs, since the selection is cut to the k largest;
//         balance and share at most k pairs each, since over all ranks at most k are
//         chosen. The caps are those two cuts; what they leave out stays in the residual.
// Keeps   in the residual what was not selected, and what was selected but not chosen (the
//         intersection rule: every selected value reached its owner, so what is in both
//         sets is settled, and only that); with rounded values the rank that coded a
//         message keeps its error.
// Paper   Li and Hoefler, "Near-Optimal Sparse Allreduce for Distributed Deep Learning",
//         PPoPP 2022.
// Departs - The exact global threshold comes from counts (global_topk.h), not from
//           gathering the whole union, which costs up to 2kP words on that step:
//           faithful=1 does that, and caps nothing.
//         - Thresholds are found again after 1, 2, 4, ... steps until tau_prime is
//           reached, so a cold start, in which residuals grow fast, does not select ten times
//           k.
//         - The published code corrects thresholds with constants for each workload: they
//           are workload=vgg|lstm|bert. Ours (any) corrects beyond two percent of k.
//           workload, tau_prime and faithful are handed on to the compressor reuse, whose
//           local threshold is the other half of the algorithm.
//         - Everything is found again when k changes, as at the end of the dense warm-up,
//           which is the scheme's schedule here. The published code relies on a warm-up
//           that is a multiple of tau and tau_prime.
//         - Cuts are averaged in 64 bits, need neither P selected coordinates nor any,
//           and are checked: sorted, and covering the vector.
//         - Where a reused threshold would choose less than half of k, or more than twice
//           as many, it is found again on the same step; correcting it by a percent a
//           step would take too long. Between k and 2k every owner keeps its largest, in
//           proportion and at least one; where k is less than two for each rank, so that
//           there is nothing to share out, the threshold is found again too. The
//           published code has no cap anywhere, and may choose nothing.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/exchange.h"
#include "collectives/primitives/global_topk.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/sum_writer.h"
#include "collectives/primitives/words.h"
#include "core/merge.h"
#include "core/select.h"
#include "core/threshold_reuse.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

constexpr double kUneven =
    4;  // balance when the fullest owner has so many times the mean

class OkTopk final : public Collective {
 public:
  OkTopk(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "oktopk", params),
        compressor_(compressor),
        reuse_(core::ThresholdReuse::read(params)),
        control_(reuse_.global),
        tau_(params.integer("tau", 64, 1, 1 << 20, "steps between new region cuts")),
        tau_prime_(reuse_.tau_prime),
        faithful_(reuse_.faithful) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    if (k != k_) step_ = next_exact_ = 0;
    k_ = k;
    select(residual, grad, k);
    if (step_ % tau_ == 0 || !cuts_fit(residual.size())) repartition(residual.size());
    split(k);
    add_up(blocks_, held_);
    choose(k);
    balance(residual.size());
    share(residual.size());
    ++step_;
    if (!channel_.finite()) return guard_.undo(residual, grad);
    settle_residual(residual);
    return write(grad, sum);
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.field("step", step_);
    visitor.field("next_exact", next_exact_);
    visitor.field("threshold", threshold_);
    visitor.field("cuts", cuts_);
    visitor.field("k", k_);
    global_topk_.visit_state(visitor);
    read_cuts();
  }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    const double ranks = channel_.size();
    const double part = cost.pairs(k / ranks, n / ranks);
    return {cost.exchange(part), cost.rounds(Cost::words(2 * ranks / 2)),
            cost.allgather(part)};
  }

 private:
  void select(ResidualVector& residual, std::span<float> grad, std::size_t k) {
    guard_.select(compressor_, residual, grad, k, mine_);
    if (!faithful_) core::keep_largest(mine_, k);
  }

  // ---- regions

  // State from another number of ranks, or of another vector, has cuts that do not.
  bool cuts_fit(std::uint64_t n) const {
    return cuts_.size() == at(channel_.size()) + 1 && cuts_.front() == 0 &&
           cuts_.back() == n && std::is_sorted(cuts_.begin(), cuts_.end());
  }

  // Everyone proposes the positions that cut its own selection into P equal parts; the
  // mean of the proposals is sorted because each of them is. A rank that selected nothing
  // proposes equal regions. Positions are summed in two halves of 16 bits: exact up to
  // 2^16 ranks.
  void repartition(std::uint64_t n) {
    const auto ranks = at(channel_.size());
    std::vector<std::uint32_t> halves(2 * (ranks - 1));
    for (std::size_t cut = 1; cut < ranks; ++cut) {
      const std::uint64_t position =
          mine_.empty() ? equal_region(n, channel_.size(), static_cast<int>(cut)).begin
                        : mine_.index[mine_.size() * cut / ranks];
      halves[2 * cut - 2] = static_cast<std::uint32_t>(position & 0xFFFF);
      halves[2 * cut - 1] = static_cast<std::uint32_t>(position >> 16);
    }
    channel_.enter("repartition");
    sum_counts(channel_, halves);
    cuts_.assign(1, 0);
    for (std::size_t cut = 1; cut < ranks; ++cut) {
      const std::uint64_t total =
          (std::uint64_t{halves[2 * cut - 1]} << 16) + halves[2 * cut - 2];
      // Words of a peer may be anything; regions must not overlap all the same.
      cuts_.push_back(std::clamp(total / ranks, cuts_.back(), n));
    }
    cuts_.push_back(n);
    read_cuts();
  }

  void read_cuts() {
    regions_.clear();
    for (std::size_t j = 1; j < cuts_.size(); ++j)
      regions_.push_back({cuts_[j - 1], cuts_[j]});
  }

  void split(std::size_t k) {
    core::split(mine_.index, cuts_, at_cut_);
    parts_.clear();
    for (std::size_t j = 0; j + 1 < at_cut_.size(); ++j)
      parts_.push_back(SparseView(mine_).slice(at_cut_[j], at_cut_[j + 1]));
    channel_.enter("split");
    exchange_.run(channel_, parts_, regions_, faithful_ ? cuts_.back() : k, blocks_,
                  errors_);
  }

  // ---- the global threshold

  void choose(std::size_t k) {
    const bool known = step_ < next_exact_ && threshold_ > 0;
    if (!known || !reuse_threshold(k)) find_threshold(k);
  }

  void find_threshold(std::size_t k) {
    faithful_ ? choose_from_union(k) : global_topk_.keep_largest(channel_, held_, k);
    if (!faithful_) threshold_ = global_topk_.threshold();
    const std::int64_t period = std::max<std::int64_t>(1, std::min(step_, tau_prime_));
    next_exact_ = step_ + (faithful_ ? tau_prime_ : period);
    channel_.report_unless_finite(held_.value);
    channel_.enter("count");
    const auto mine = static_cast<std::uint32_t>(held_.size());
    counts_ = gather_words(channel_, std::span(&mine, 1));
  }

  // As published: everyone sees every sum, and the k-th largest is the threshold.
  void choose_from_union(std::size_t k) {
    channel_.enter("gather the union");
    allgather_.run(channel_, held_, regions_, cuts_.back(), chosen_, hold_error_);
    Sparse all;
    for (const Sparse& block : chosen_) all.append(block);
    core::keep_largest(all, k);
    threshold_ = 0;
    for (const float value : all.value)
      threshold_ =
          threshold_ == 0 ? std::abs(value) : std::min(threshold_, std::abs(value));
    keep_at_least(threshold_);
  }

  // Keeps what reaches the threshold, but together no more than k, and corrects the
  // threshold by how many did. False, with all still held, where it is too far off to be
  // corrected. Two words from each rank, so all decide alike.
  bool reuse_threshold(std::size_t k) {
    channel_.report_unless_finite(held_.value);
    channel_.enter("count");
    const auto reaching = static_cast<std::uint32_t>(std::ranges::count_if(
        held_.value, [&](float value) { return reaches(value, threshold_); }));
    const std::uint32_t mine[] = {reaching, static_cast<std::uint32_t>(held_.size())};
    const std::vector<std::uint32_t> both = gather_words(channel_, mine);
    counts_.clear();
    std::uint64_t total = 0;
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < both.size(); i += 2) {
      counts_.push_back(both[i]);
      total += both[i];
      all += both[i + 1];
    }
    if (!faithful_ && !near_enough(total, all, k)) return false;
    keep_at_least(threshold_);
    correct(static_cast<double>(total), static_cast<double>(k));
    if (total > k && !faithful_) cut_to(k, total);
    return true;
  }

  // Between half of k and all of it; or up to twice as many, where the owners have enough
  // to cut. Fewer than there are cannot be asked for.
  bool near_enough(std::uint64_t total, std::uint64_t all, std::uint64_t k) const {
    if (total <= k) return 2 * total >= std::min(k, all);
    return total <= 2 * k && k >= 2 * at(channel_.size());
  }

  // Of `total` chosen k are kept: one at each owner that has any, so that none is cut to
  // nothing, and of the rest at each in proportion to what it has.
  void cut_to(std::uint64_t k, std::uint64_t total) {
    const auto owners = static_cast<std::uint64_t>(
        std::ranges::count_if(counts_, [](std::uint32_t count) { return count > 0; }));
    std::uint64_t before = 0;
    std::uint64_t given = 0;
    for (std::uint32_t& count : counts_) {
      if (count == 0) continue;
      before += count - 1;
      const std::uint64_t share = before * (k - owners) / (total - owners);
      count = static_cast<std::uint32_t>(1 + share - given);
      given = share;
    }
    core::keep_largest(held_, counts_[at(channel_.rank())]);
  }

  // What is not a number counts, so that it is not overlooked.
  static bool reaches(float value, float threshold) {
    return !(std::abs(value) < threshold);
  }

  void keep_at_least(float threshold) {
    core::keep_if(held_, [&](float value) { return reaches(value, threshold); });
  }

  void correct(double total, double k) {
    if (total < control_.low * k) threshold_ /= static_cast<float>(control_.lower);
    if (total > control_.high * k) threshold_ *= static_cast<float>(control_.raise);
  }

  // ---- what was chosen, to everyone

  // What is held is in order over the ranks, so place q of all goes to the rank whose
  // even share has it.
  void balance(std::uint64_t n) {
    even_.assign(at(channel_.size()), Region{0, n});
    moved_errors_.clear();
    const std::uint64_t total =
        std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
    const double mean = static_cast<double>(total) / channel_.size();
    balanced_ = *std::max_element(counts_.begin(), counts_.end()) > kUneven * mean;
    if (!balanced_) return std::swap(sharing_, held_);
    const std::uint64_t first = std::accumulate(
        counts_.begin(), counts_.begin() + channel_.rank(), std::uint64_t{0});
    parts_.clear();
    for (int j = 0; j < channel_.size(); ++j) {
      const Region share = equal_region(total, channel_.size(), j);
      const auto place = [&](std::uint64_t q) {
        return static_cast<std::size_t>(std::clamp(q, first, first + held_.size()) -
                                        first);
      };
      parts_.push_back(SparseView(held_).slice(place(share.begin), place(share.end)));
    }
    channel_.enter("balance");
    exchange_.run(channel_, parts_, even_, n, blocks_, moved_errors_);
    sharing_.clear();
    for (const Sparse& block : blocks_) sharing_.append(block);
  }

  void share(std::uint64_t n) {
    channel_.enter("share");
    allgather_.run(channel_, sharing_, balanced_ ? even_ : regions_, n, chosen_,
                   share_error_);
  }

  // ---- the end of a step

  bool rounds() const { return channel_.values() != core::Values::f32; }

  void settle_residual(ResidualVector& residual) {
    index_.clear();
    settled_.clear();
    settled_error_.clear();
    for (const Sparse& block : chosen_)
      index_.insert(index_.end(), block.index.begin(), block.index.end());
    std::size_t j = 0;
    for (std::size_t part = 0; part + 1 < at_cut_.size(); ++part)
      for (std::size_t i = at_cut_[part]; i < at_cut_[part + 1]; ++i) {
        while (j < index_.size() && index_[j] < mine_.index[i]) ++j;
        if (j == index_.size() || index_[j] != mine_.index[i]) continue;
        settled_.push_back(index_[j]);
        if (rounds())
          settled_error_.push_back(
              errors_[part].empty() ? 0.0F : errors_[part][i - at_cut_[part]]);
      }
    residual.settle(settled_, settled_error_);
    for (std::size_t part = 0; part < moved_errors_.size(); ++part)
      if (!moved_errors_[part].empty())
        residual.add({parts_[part].index, moved_errors_[part]});
    if (!share_error_.empty()) residual.add({sharing_.index, share_error_});
  }

  Reduced write(std::span<const float> grad, std::span<float> sum) const {
    clear_sum(grad, sum);
    for (const Sparse& block : chosen_)
      for (std::size_t i = 0; i < block.size(); ++i) sum[block.index[i]] = block.value[i];
    return {.count = index_.size(), .index = index_, .settled = settled_};
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  const core::ThresholdReuse reuse_;
  const core::ThresholdReuse::Control& control_;
  const std::int64_t tau_;
  const std::int64_t tau_prime_;
  const bool faithful_;

  std::int64_t step_ = 0;  // since k last changed
  std::int64_t next_exact_ = 0;
  std::uint64_t k_ = 0;  // of the last step
  float threshold_ = 0;
  std::vector<std::uint64_t> cuts_ = {0};  // P + 1 of them once there was a step
  std::vector<Region> regions_;            // between the cuts

  Exchange exchange_;
  GlobalTopK global_topk_;
  Allgather allgather_;
  Sparse mine_;
  std::vector<std::size_t> at_cut_;         // where the cuts are in mine_
  std::vector<SparseView> parts_;           // of mine_, then of held_
  std::vector<Sparse> blocks_;              // by sender
  std::vector<std::vector<float>> errors_;  // of what was split, by owner
  Sparse held_;                             // my region's sums, then the chosen ones
  std::vector<std::uint32_t> counts_;       // how many each owner has chosen
  bool balanced_ = false;
  std::vector<Region> even_;
  std::vector<std::vector<float>> moved_errors_;  // of what was moved, by receiver
  Sparse sharing_;                                // what I pass to everyone
  std::vector<float> hold_error_;
  std::vector<float> share_error_;
  std::vector<Sparse> chosen_;          // by the rank that shared it
  std::vector<std::uint32_t> index_;    // of the sum
  std::vector<std::uint32_t> settled_;  // those that were mine
  std::vector<float> settled_error_;    // of these, where values are rounded
};

}  // namespace

std::unique_ptr<Collective> oktopk(Transport& link, Compressor& compressor, const Layout&,
                                   Params& params) {
  return std::make_unique<OkTopk>(link, compressor, params);
}

}  // namespace topknot::collective

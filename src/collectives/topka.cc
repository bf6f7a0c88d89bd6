// SPDX-License-Identifier: Apache-2.0
//
// topka: everyone sends what it selected to everyone.
//
//   select   about k coordinates of the residual
//   share    all P selections, round a ring
//   add      the selections, in rank order, so that every rank rounds alike
//   reselect with reselect=1 only: the k largest of the sum, ties to the lower index
//   settle   take what was sent, and kept, out of the residual
//
// Cost    (P-1) alpha + 2k(P-1) beta a rank, beta per 32-bit word, before coding. The
//         volume grows with P, and so does the sum: up to kP coordinates. To be beaten.
// Keeps   in the residual what was not selected, what was not kept when reselecting, and
//         what rounding took off the values that were.
// Bound   the busiest rank sends exactly the other ranks' selections but one: 2k(P-1)
//         words when the compressor gives k. No cap is needed.
// Paper   Aji and Heafield, "Sparse Communication for Distributed Gradient Descent",
//         EMNLP 2017; "TopkA" in Li and Hoefler, PPoPP 2022.
// Departs One message carries positions and values, where the published code calls two
//         collectives; and selections of unequal length, empty ones among them, are
//         legal. reselect=1 is the published code's topkA2, which keeps min(k, union) of
//         the sums. They are complete here, unlike gTop-k's, so that what is both mine
//         and kept is settled, and only that (the intersection rule).

#include <memory>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/sum_writer.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class TopkA final : public Collective {
 public:
  TopkA(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "topka", params),
        compressor_(compressor),
        reselect_(params.flag(
            "reselect", false,
            "keep the k largest of the sum; the rest stays in the residuals")) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    guard_.select(compressor_, residual, grad, k, mine_);
    share(residual.size());
    if (channel_.finite() && reselect_) reselect(k);
    if (!channel_.finite() || !writer_.add(blocks_, grad, sum))
      return guard_.undo(residual, grad);
    return {.count = writer_.index().size(),
            .index = writer_.index(),
            .settled = reselect_ ? settle_kept(residual) : settle_all(residual)};
  }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    return {cost.allgather(cost.pairs(k, n))};
  }

 private:
  void share(std::uint64_t n) {
    channel_.enter("share");
    whole_.assign(at(channel_.size()), Region{0, n});
    allgather_.run(channel_, mine_, whole_, n, blocks_, error_);
  }

  // Leaves one block, the part of the sum that is kept. Everyone has the same blocks, so
  // everyone finds the same overflow.
  void reselect(std::size_t k) {
    add_up(blocks_, kept_);
    channel_.report_unless_finite(kept_.value);
    core::keep_largest(kept_, k);
    blocks_.resize(1);
    std::swap(blocks_[0], kept_);
  }

  std::span<const std::uint32_t> settle_all(ResidualVector& residual) const {
    residual.settle(mine_.index, error_);
    return mine_.index;
  }

  std::span<const std::uint32_t> settle_kept(ResidualVector& residual) {
    const std::vector<std::uint32_t>& kept = blocks_[0].index;
    settled_.clear();
    settled_error_.clear();
    std::size_t j = 0;
    for (std::size_t i = 0; i < mine_.size(); ++i) {
      while (j < kept.size() && kept[j] < mine_.index[i]) ++j;
      if (j == kept.size()) break;
      if (kept[j] != mine_.index[i]) continue;
      settled_.push_back(kept[j]);
      if (!error_.empty()) settled_error_.push_back(error_[i]);
    }
    residual.settle(settled_, settled_error_);
    return settled_;
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  const bool reselect_;
  Allgather allgather_;
  SumWriter writer_;
  Sparse mine_;
  std::vector<float> error_;
  std::vector<Region> whole_;   // everyone's selection may lie anywhere
  std::vector<Sparse> blocks_;  // by rank; when reselecting, then what is kept
  Sparse kept_;
  std::vector<std::uint32_t> settled_;  // what is both mine and kept
  std::vector<float> settled_error_;    // of these, where values are rounded
};

}  // namespace

std::unique_ptr<Collective> topka(Transport& link, Compressor& compressor, const Layout&,
                                  Params& params) {
  return std::make_unique<TopkA>(link, compressor, params);
}

}  // namespace topknot::collective

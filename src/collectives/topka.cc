// SPDX-License-Identifier: Apache-2.0
//
// topka: everyone sends what it selected to everyone.
//
//   select   about k coordinates of the debt
//   share    all P selections, round a ring
//   settle   take what was sent out of the debt
//   add      the selections, in rank order, so that every rank rounds alike
//
// Cost    (P-1) alpha + 2k(P-1) beta a rank, beta per 32-bit word, before coding. The
//         volume grows with P, and so does the sum: up to kP coordinates. To be beaten.
// Owes    what was not selected, and what rounding took off the values that were.
// Bound   the busiest rank sends exactly the other ranks' selections but one: 2k(P-1)
//         words when the compressor gives k. No cap is needed.
// Paper   Aji and Heafield, "Sparse Communication for Distributed Gradient Descent",
//         EMNLP 2017; "TopkA" in Li and Hoefler, PPoPP 2022.
// Departs One message carries positions and values, where the published code pays two
//         collectives; and selections of unequal length, empty ones among them, are
//         legal.

#include <memory>
#include <vector>

#include "collectives/primitives.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class TopkA final : public Collective {
 public:
  TopkA(Transport& link, Compressor& pick, Params& params)
      : courier_(link, "topka", params), pick_(pick) {}

  Reduced reduce(std::span<float> acc, std::span<const float> grad, std::size_t k,
                 std::span<float> sum) override {
    courier_.begin(acc.size(), k);
    courier_.select(pick_, acc, grad, k, mine_);
    share(acc.size());
    if (!courier_.finite() || !writer_.add(blocks_, grad, sum))
      return courier_.undo(acc, grad);
    settle(mine_.index, error_, acc);
    return {
        .count = writer_.index().size(), .index = writer_.index(), .paid = mine_.index};
  }

 private:
  void share(std::uint64_t n) {
    courier_.enter("share");
    whole_.assign(static_cast<std::size_t>(courier_.size()), Region{0, n});
    allgather_.run(courier_, mine_, whole_, n, blocks_, error_);
  }

  Courier courier_;
  Compressor& pick_;
  Allgather allgather_;
  SumWriter writer_;
  Sparse mine_;
  std::vector<float> error_;
  std::vector<Region> whole_;   // everyone's selection may lie anywhere
  std::vector<Sparse> blocks_;  // by rank
};

}  // namespace

std::unique_ptr<Collective> topka(Transport& link, Compressor& pick, const Layout&,
                                  Params& params) {
  return std::make_unique<TopkA>(link, pick, params);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// cltk: the ranks take turns in saying where; everyone sends what it owes there.
//
//   select   on one rank, the leader, about k coordinates of its debt; elsewhere fold
//   share    the leader's positions, down a tree
//   sum      everyone's values there, in rank order
//   pay      the debt there, on every rank, and write the sum
//
// It rests on debts being alike: what is large on one rank is large on the others. Only
// the leader selects, so the selection costs a rank one step in P.
//
// Cost    (ceil(log2 P) + 2(P-1)) alpha + 3k(P-1)/P beta on average, beta per 32-bit
//         word, before coding.
// Bound   the busiest rank, the leader, sends at most k ceil(log2 P) + 2k'(P-1)/P words,
//         k' = k rounded up to a multiple of P, on any input and every step, headers
//         apart. Everyone leads in turn, so over P steps each sends 3k(P-1)/P words a
//         step. The cap is the cut of the leader's selection to its k largest; what it
//         leaves out stays owed.
// Owes    what the leader did not select; with rounded values each rank what its own
//         rounding took off.
// Paper   Chen et al., "ScaleCom: Scalable Sparsified Gradient Compression for
//         Communication-Efficient Distributed Training", NeurIPS 2020 (cyclic local
//         top-k).
// Departs In the published code everyone selects and all but the leader throw it away. A
//         compressor that keeps something from step to step sees every P-th step only.
//         ScaleCom's low-pass filter on the debt is a memory's business, and no memory here
//         has it.

#include <memory>
#include <vector>

#include "collectives/index_agreement.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

class CltK final : public Collective {
 public:
  CltK(Transport& link, Compressor& pick, Params& params)
      : courier_(link, "cltk", params), pick_(pick) {}

  Reduced reduce(std::span<float> acc, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    courier_.begin(acc.size(), k);
    const int leader =
        static_cast<int>(step_++ % static_cast<std::uint64_t>(courier_.size()));
    select(leader, acc, grad, k);
    agreed_.follow(courier_, leader, mine_.index, acc.size(), k);
    return agreed_.pay(courier_, acc, grad, sum);
  }

  void visit_state(StateVisitor& visitor) override { visitor.field("step", step_); }

 private:
  void select(int leader, std::span<float> acc, std::span<float> grad, std::size_t k) {
    if (courier_.rank() != leader) return courier_.fold(acc, grad);
    courier_.select(pick_, acc, grad, k, mine_);
    core::keep_largest(mine_, k);
  }

  Courier courier_;
  Compressor& pick_;
  std::uint64_t step_ = 0;

  IndexAgreement agreed_;
  Sparse mine_;  // the leader's
};

}  // namespace

std::unique_ptr<Collective> cltk(Transport& link, Compressor& pick, const Layout&,
                                 Params& params) {
  return std::make_unique<CltK>(link, pick, params);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// adtopk: the largest of every row of every tensor, so that none is starved; in turn with
// the largest of all.
//
// Global top-k spends most of k on a few rows, and others wait for a long time. So on
// every other step each row gives its own: a tensor [D0, D1, rest] has D0 x rest rows of
// D1 coordinates, and each gives the max(1, int(D1 * rho)) of largest magnitude, where rho
// is the density. A tensor of one dimension is one row.
//
// rho and not k/n: k is n * rho rounded down, so a row of 1,000 would get 9 coordinates at
// 1 % wherever n is no multiple of 100. The engine tells rho with every step. A caller that
// tells only k has asked for a density from k/n to less than (k+1)/n, and the densest of
// these is taken: where D1 * rho is whole it gives the same, and else that of a density
// less than 1/n above rho. A collective that asks for another k than the step's, as spardl
// may, is such a caller.
//
// Promise  on a step over rows, exactly the sum over the rows of max(1, int(D1 * rho)); on
//          the others exactly min(k, n). Ties to the lower index. Note that the density of
//          a step over rows is that of the rows: with D1 = 3 it is a third whatever k is,
//          and with D1 = 128 and one in a hundred wanted, 1/128.
// Cost     reads and writes residual and grad once; the rows are read again from the
//          cache. Rows longer than the cache, and those across a tensor with a huge rest,
//          are slower.
// Paper    Ming et al., "ADTopk: All-Dimension Top-k Compression for High-Performance
//          Data-Parallel DNN Training", HPDC 2024.
// Departs  Published positions are relative to the row and travel as 64 bits; ours are as
//          everyone's. There whether a step goes over rows is decided by tensor, with a
//          parameter called "fc" always over rows; here by bucket. A bucket that is
//          handed over in parts has no rows: it gets global top-k. There some parameters
//          are sent whole and some have no error feedback, by their names; here the former
//          is a matter of rules, and nothing is without error feedback.

#include <algorithm>
#include <memory>

#include "core/rows.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

class AdTopK final : public Compressor {
 public:
  AdTopK(const Layout& layout, Params& params)
      : rows_(layout),
        interleave_(params.flag("interleave", true,
                                "rows on even steps, global top-k on odd; 0: rows")) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    // A step that is not finite counts too: another rank may not have noticed yet.
    const bool over_rows = !interleave_ || steps_ % 2 == 0;
    ++steps_;
    if (!over_rows || residual.size() != rows_.size() || residual.empty())
      return exact_.select(residual, grad, k, out);
    return rows_.select(residual, grad, k, out, k == expected_k_ ? density_ : 0);
  }

  void expect(std::size_t k, double density) override {
    expected_k_ = k;
    density_ = density;
  }

  void visit_state(StateVisitor& visitor) override { visitor.field("steps", steps_); }

 private:
  core::Rows rows_;
  core::ExactTopK exact_;
  const bool interleave_;
  std::uint64_t steps_ = 0;
  std::size_t expected_k_ = 0;
  double density_ = 0;  // that expected_k_ was rounded from; 0: nobody has told
};

}  // namespace

std::unique_ptr<Compressor> adtopk(const Layout& layout, Params& params) {
  return std::make_unique<AdTopK>(layout, params);
}

}  // namespace topknot::compressor

// SPDX-License-Identifier: Apache-2.0
//
// randomk: k coordinates at random, the same on every rank.
//
// The ranks share a seed and count steps, so they agree on the set without messages, and
// the set does not grow with the number of ranks as everyone's own top-k does. It ignores
// magnitudes: it is the baseline that shows what selection is worth.
//
// The circle of n positions is turned by a random angle and cut into k nearly equal arcs;
// each gives one position, evenly drawn. They are distinct and in order without sorting,
// and every position has the same chance, k/n.
//
// Promise  exactly min(k, n) coordinates; the same on all ranks that call with equal n
//          and k and have called equally often.
// Cost     reads and writes residual and grad once; O(k) for the choice.
// Paper    Stich et al., "Sparsified SGD with Memory", NeurIPS 2018.
// Departs  The published codes shuffle all n positions, re-seed the program's one random
//          generator at every tensor, or draw another set on each rank. Nothing is scaled
//          by n/k: the memory keeps what was not sent.

#include <algorithm>
#include <memory>

#include "core/merge.h"
#include "core/random.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

class RandomK final : public Compressor {
 public:
  explicit RandomK(Params& params)
      : seed_(static_cast<std::uint64_t>(params.integer(
            "seed", 1, 0, INT64_MAX, "the same on all ranks, or they differ"))) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    // A step counts whether it is finite or not: the other ranks cannot tell.
    const std::uint64_t key = core::random_bits(seed_, step_++);
    out.clear();
    if (!core::fold(residual, grad)) return false;
    draw(key, residual.size(), std::min(k, residual.size()), out.index);
    out.value.resize(out.index.size());
    core::gather(residual, out.index, out.value);
    return true;
  }

  void visit_state(StateVisitor& visitor) override { visitor.field("step", step_); }

 private:
  static void draw(std::uint64_t key, std::uint64_t n, std::uint64_t k,
                   std::vector<std::uint32_t>& index) {
    if (k == 0) return;
    core::Random random(key);
    const std::uint64_t turn = random.below(n);
    std::size_t behind = 0;  // how many come before the circle closes
    index.reserve(k);
    for (std::uint64_t arc = 0; arc < k; ++arc) {
      const std::uint64_t begin = arc * n / k;
      const std::uint64_t end = (arc + 1) * n / k;
      const std::uint64_t position = turn + begin + random.below(end - begin);
      if (position < n) ++behind;
      index.push_back(static_cast<std::uint32_t>(position < n ? position : position - n));
    }
    std::rotate(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(behind),
                index.end());
  }

  const std::uint64_t seed_;
  std::uint64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Compressor> randomk(const Layout&, Params& params) {
  return std::make_unique<RandomK>(params);
}

}  // namespace topknot::compressor

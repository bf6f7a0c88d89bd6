// SPDX-License-Identifier: Apache-2.0
//
// chunked: the largest magnitudes of every chunk of 4096 coordinates.
//
// No layer with small gradients is starved by one with large ones, a chunk's positions
// need 12 bits at most, and a chunk stays in the cache: it is folded, and its largest are
// chosen, before the next one is looked at.
//
// Each chunk gets its share of k, k times its length over n. What does not divide evenly
// moves on from step to step (by the golden ratio, which leaves no chunk waiting long),
// so that a chunk whose share is less than one coordinate still gets its turn.
//
// Promise  exactly min(k, n) coordinates: in every chunk its share, rounded down or up,
//          exact within the chunk, ties to the lower index.
// Cost     reads and writes residual and grad once; the choice among a chunk's few
//          largest besides.
// Paper    Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo",
//          2025.
// Departs  A share is a fraction of k, not a fixed 32 or 64 in each chunk, so density
//          means what it means elsewhere; chunks are runs of the bucket, not 64 x 64
//          squares of a matrix (one published code takes rows by mistake, of another
//          density each). A coordinate's sum is divided by the number of all ranks; there
//          by that of the ranks that sent it. Decay is the memory residual's, values of a
//          few bits are the collective's (values=i2), with another code than theirs.

#include <algorithm>
#include <memory>
#include <vector>

#include "core/at_most.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

/// Step `step` of the sequence 0, phi, 2 phi, ... modulo 1, times n.
std::uint64_t golden(std::uint64_t step, std::uint64_t n) {
  return static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(step * 0x9E3779B97F4A7C15ULL) * n) >> 64);
}

class Chunked final : public Compressor {
 public:
  explicit Chunked(Params& params)
      : chunk_(static_cast<std::size_t>(
            params.integer("chunk", 4096, 1, 1 << 24,
                           "coordinates among which the largest are chosen"))) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    const std::uint64_t n = residual.size();
    const std::uint64_t offset = golden(step_++, n);
    k = std::min(k, residual.size());
    thresholds_.resize((n + chunk_ - 1) / chunk_);
    out.clear();
    std::uint64_t before = 0;  // the shares of the chunks so far
    for (std::size_t first = 0; first < n; first += chunk_) {
      const std::size_t length = std::min(chunk_, residual.size() - first);
      const std::uint64_t until = ((first + length) * k + offset) / n;
      if (!select_chunk(residual.subspan(first, length),
                        grad.empty() ? grad : grad.subspan(first, length), until - before,
                        thresholds_[first / chunk_])) {
        core::undo_fold(residual.first(first), grad.empty() ? grad : grad.first(first));
        out.clear();
        return false;
      }
      before = until;
      for (std::uint32_t& position : picked_.index)
        position += static_cast<std::uint32_t>(first);
      out.append(picked_);
    }
    return true;
  }

  void visit_state(StateVisitor& visitor) override { visitor.field("step", step_); }

 private:
  // Picks exactly `share` among what reaches a little less than the chunk's last
  // `threshold`; where that is too few, among all.
  bool select_chunk(std::span<float> residual, std::span<float> grad, std::size_t share,
                    float& threshold) {
    picked_.clear();
    if (share == 0) return core::fold(residual, grad);
    if (!core::fold_and_select(residual, grad, (1 - slack_) * threshold, picked_))
      return false;
    const std::size_t seen = picked_.size();
    if (seen < share && !core::fold_and_select(residual, {}, 0, picked_)) return false;
    core::keep_largest(picked_, share);
    threshold = core::smallest_magnitude(picked_.value);
    adapt(seen, share);
    return true;
  }

  // As many candidates again as are wanted cost little; a miss, as much as hundreds.
  void adapt(std::size_t seen, std::size_t share) {
    const bool much = seen > 2 * share + 32;
    slack_ = std::clamp(slack_ * (seen < share ? 1.5F
                                  : much       ? 0.99F
                                               : 1.01F),
                        0.001F, 0.9F);
  }

  const std::size_t chunk_;
  std::uint64_t step_ = 0;
  // Guesses, which make it fast but change nothing, so they are not saved.
  std::vector<float> thresholds_;  // by chunk
  float slack_ = 0.1F;
  Sparse picked_;
};

}  // namespace

std::unique_ptr<Compressor> chunked(const Layout&, Params& params) {
  return std::make_unique<Chunked>(params);
}

}  // namespace topknot::compressor

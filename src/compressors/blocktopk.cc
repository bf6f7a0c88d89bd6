// SPDX-License-Identifier: Apache-2.0
//
// blocktopk: whole blocks, those with the largest sums of magnitudes.
//
// What is sent and received is contiguous memory, and positions that come in runs are
// cheap to code: at a density of 1 % top-k takes 8.2 bits a position in our messages,
// blocks of 256 take 4.9 and blocks of 1024 take 2.1 (runs of 64 save nothing). In
// exchange a block takes its small coordinates along, so that less of the gradient's
// weight gets through at equal density: how much less depends on how far large ones come
// together, and among independent ones nearly all is lost.
//
// Promise  the ceil(k / block) best blocks of this rank, ties to the lower one: fewer
//          than k + block coordinates and, where the short last block is among them, more
//          than k - block.
// Cost     reads and writes residual and grad once, sums of magnitudes included,
//          which are taken while a stretch is in the cache; O(n / block + k) besides.
// Paper    Sun et al., "Optimizing Network Performance for Distributed DNN Training on
//          GPU Clusters: ImageNet/AlexNet Training in 1.5 Minutes", 2019 (coarse-grained
//          sparse communication).
// Departs  There the sums are first added up over all ranks, so that all keep the same
//          blocks. That takes messages, and a compressor has no channel:
//          here every rank keeps its own, and the collective merges them. Its correction of
//          momentum is the memory dgc, its dense start the schedule dense: name them.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot::compressor {
namespace {

constexpr std::size_t kStretch = 4096;  // folded, then summed while it is in the cache

/// The sum of magnitudes, in double so that nothing is lost, and in 8 lanes in a fixed
/// order so that every processor gets the same bits; at most the largest float.
float weight_of(std::span<const float> block) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes = {};
  std::size_t i = 0;
  for (; i + kLanes <= block.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<double>(std::abs(block[i + lane]));
  for (; i < block.size(); ++i)
    lanes[i % kLanes] += static_cast<double>(std::abs(block[i]));
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return static_cast<float>(
      std::min(sum, static_cast<double>(std::numeric_limits<float>::max())));
}

class BlockTopK final : public Compressor {
 public:
  explicit BlockTopK(Params& params)
      : block_(static_cast<std::size_t>(params.integer(
            "block", 256, 1, 1 << 20, "coordinates that are kept or left together"))) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    out.clear();
    if (!fold_and_weigh(residual, grad)) return false;
    core::keep_largest(weights_, (std::min(k, residual.size()) + block_ - 1) / block_);
    out.reserve(weights_.size() * block_);
    for (const std::uint32_t block : weights_.index) {
      const std::size_t begin = block * block_;
      const std::size_t end = std::min(begin + block_, residual.size());
      for (std::size_t i = begin; i < end; ++i)
        out.push_back(static_cast<std::uint32_t>(i), residual[i]);
    }
    return true;
  }

 private:
  bool fold_and_weigh(std::span<float> residual, std::span<float> grad) {
    const std::size_t stretch = std::max<std::size_t>(kStretch / block_, 1) * block_;
    weights_.clear();
    for (std::size_t first = 0; first < residual.size(); first += stretch) {
      const std::size_t length = std::min(stretch, residual.size() - first);
      const std::span<float> part = residual.subspan(first, length);
      if (!core::fold(part, grad.empty() ? grad : grad.subspan(first, length))) {
        core::undo_fold(residual.first(first), grad.empty() ? grad : grad.first(first));
        return false;
      }
      for (std::size_t i = 0; i < length; i += block_)
        weights_.push_back(static_cast<std::uint32_t>(weights_.size()),
                           weight_of(part.subspan(i, std::min(block_, length - i))));
    }
    return true;
  }

  const std::size_t block_;
  Sparse weights_;  // by block
};

}  // namespace

std::unique_ptr<Compressor> blocktopk(const Layout&, Params& params) {
  return std::make_unique<BlockTopK>(params);
}

}  // namespace topknot::compressor

// SPDX-License-Identifier: Apache-2.0
//
// allgather_fast: topka's exchange, added up in one pass over the vector.
//
//   select   about k coordinates of the residual
//   share    all P selections, round a ring
//   settle   take what was sent out of the residual
//   add      the selections, a window of positions at a time
//
// The published code's point is the last phase: the plain allgather decompresses P dense
// vectors and adds them, O(nP); theirs is one scatter-add over the concatenation of all
// selections, O(n + Pk). topka here is O(n + Pk) as well, but its P passes each walk
// through the whole of the sum, and clearing the sum and listing what was touched are
// passes of their own. Here a window of 2^15 positions is cleared, gets the pairs of rank
// 0, of rank 1, ... that fall into it, and is listed while it is in the cache: every line
// of the sum comes from memory once, whatever P is. Selections are sorted, so all that
// takes is a cursor into each. A coordinate is still added up in rank order, so the bits
// are topka's, and the list of coordinates comes out sorted.
//
// Cost    (P-1) alpha + 2k(P-1) beta a rank, beta per 32-bit word, before coding; the
//         same as topka. Adding up selections of 1 % of 2^24 coordinates, on one core
//         of an EPYC with 512 KiB of L2:
//
//           P = 2    6 ms, topka 8        over the gradient   8 ms, topka 11
//           P = 8   16 ms, topka 34       over the gradient  11 ms, topka 37
//           P = 32  32 ms, topka 120      over the gradient  22 ms, topka 126
//
//         and as much as topka where the union has less than 1 % of the coordinates.
// Keeps   in the residual what was not selected, and what rounding took off the values
//         that were.
// Bound   the busiest rank sends exactly the other ranks' selections but one: 2k(P-1)
//         words when the compressor gives k. No cap is needed.
// Paper   "AllgatherFast" of the ADTopk library, Ming et al., HPDC 2024.
// Departs Selections may be of unequal length (theirs must not be), and a selection that
//         is coded is decoded first, into pairs, never into a dense vector.

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/sum_writer.h"
#include "topknot/catalog.h"

namespace topknot::collective {
namespace {

/// What SumWriter does, with the same bits, in one pass over the sum.
class WindowedSum {
 public:
  /// As SumWriter::add.
  [[nodiscard]] bool add(std::span<const Sparse> blocks, std::span<const float> grad,
                         std::span<float> sum) {
    if (!std::isfinite(largest_sum(blocks))) return false;
    bool dirty = sum.data() == grad.data();
    if (dirty && pairs_in(blocks) < sum.size() / kFewPairs) {
      std::ranges::fill(sum, 0.0F);
      dirty = false;
    }
    cursors_.assign(blocks.size(), 0);
    index_.clear();
    for (std::size_t begin = 0; begin < sum.size(); begin += kWindow) {
      const std::size_t length = std::min(kWindow, sum.size() - begin);
      if (dirty) std::ranges::fill(sum.subspan(begin, length), 0.0F);
      for (std::size_t rank = 0; rank < blocks.size(); ++rank)
        cursors_[rank] =
            add_window(blocks[rank], cursors_[rank], begin, length, sum.data() + begin);
      list_window(begin, length);
    }
    return true;
  }

  /// The coordinates of the last sum, in order.
  std::span<const std::uint32_t> index() const noexcept { return index_; }

 private:
  static constexpr std::size_t kWindow = std::size_t{1} << 15;
  // With fewer than one pair for so many coordinates most of a window is only cleared,
  // which is twice as fast for all of the vector at once, past the cache.
  static constexpr std::size_t kFewPairs = 64;

  static std::size_t pairs_in(std::span<const Sparse> blocks) {
    std::size_t pairs = 0;
    for (const Sparse& block : blocks) pairs += block.size();
    return pairs;
  }

  // Adds the pairs from `cursor` on that lie in the window; returns where they end.
  std::size_t add_window(const Sparse& block, std::size_t cursor, std::size_t begin,
                         std::size_t length, float* window) {
    const std::uint32_t* const index = block.index.data();
    const std::size_t size = block.size();
    for (; cursor < size && index[cursor] - begin < length; ++cursor) {
      const std::size_t offset = index[cursor] - begin;
      window[offset] += block.value[cursor];
      seen_[offset / 64] |= std::uint64_t{1} << (offset % 64);
    }
    return cursor;
  }

  void list_window(std::size_t begin, std::size_t length) {
    for (std::size_t word = 0; word * 64 < length; ++word) {
      for (std::uint64_t bits = seen_[word]; bits != 0; bits &= bits - 1)
        index_.push_back(static_cast<std::uint32_t>(
            begin + word * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
      seen_[word] = 0;
    }
  }

  std::vector<std::uint64_t> seen_ = std::vector<std::uint64_t>(kWindow / 64);
  std::vector<std::size_t> cursors_;  // by rank: the first pair that is not added yet
  std::vector<std::uint32_t> index_;
};

class AllgatherFast final : public Collective {
 public:
  AllgatherFast(Transport& link, Compressor& compressor, Params& params)
      : channel_(link, "allgather_fast", params), compressor_(compressor) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    guard_.select(compressor_, residual, grad, k, mine_);
    share(residual.size());
    if (!channel_.finite() || !writer_.add(blocks_, grad, sum))
      return guard_.undo(residual, grad);
    residual.settle(mine_.index, error_);
    return {.count = writer_.index().size(),
            .index = writer_.index(),
            .settled = mine_.index};
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

  MessageChannel channel_;
  StepGuard guard_{channel_};
  Compressor& compressor_;
  Allgather allgather_;
  WindowedSum writer_;
  Sparse mine_;
  std::vector<float> error_;
  std::vector<Region> whole_;   // everyone's selection may lie anywhere
  std::vector<Sparse> blocks_;  // by rank
};

}  // namespace

std::unique_ptr<Collective> allgather_fast(Transport& link, Compressor& compressor,
                                           const Layout&, Params& params) {
  return std::make_unique<AllgatherFast>(link, compressor, params);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// What the collectives of index agreement share. All ranks agree on one set of positions
// before any value moves; then everyone's values there are summed as a short dense
// vector, and everyone's residual there is settled. Nothing builds up: the sum has as many
// coordinates as were agreed on, whatever the number of ranks.
//
// With |I| positions agreed on, a rank sends at most |I| words for them when they are
// gathered (the ring of Allgather sends no block twice), and less than 2|I| words
// of values, in 3(P-1) messages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/broadcast.h"
#include "collectives/primitives/rank_order_sum.h"
#include "collectives/primitives/step_guard.h"

namespace topknot::collective {

class SharedIndexSum {
 public:
  /// Agrees on the positions of all ranks together. `mine` increase, lie in regions[me]
  /// and are at most `most`, possibly none; no position comes from two ranks.
  void gather(MessageChannel& channel, std::span<const std::uint32_t> mine,
              std::span<const Region> regions, std::uint64_t most);
  /// Agrees on the positions of `leader` alone, at most `most` of a vector of `n`; what
  /// others pass in is not used.
  void follow(MessageChannel& channel, int leader, std::span<const std::uint32_t> mine,
              std::uint64_t n, std::uint64_t most);

  /// How many positions were agreed on, and how many of them came from each rank in
  /// gather().
  std::size_t size() const noexcept { return index_.size(); }
  std::span<const std::uint64_t> counts() const noexcept { return counts_; }

  /// Ends the step: sums the residuals of all ranks at the positions agreed on, in rank
  /// order, clears them there on every rank and writes the sum; or undoes the step, when it
  /// is nonfinite.
  Reduced settle(StepGuard& guard, ResidualVector& residual, std::span<float> grad,
                 std::span<float> sum);

 private:
  Allgather allgather_;
  Broadcast broadcast_;
  RankOrderSum in_rank_order_;
  std::vector<std::vector<std::uint32_t>> blocks_;  // by rank
  std::vector<std::uint64_t> counts_;               // by rank
  std::vector<std::uint32_t> index_;
  std::vector<float> values_;  // of index_: mine, then the sums
  std::vector<float> error_;
};

}  // namespace topknot::collective

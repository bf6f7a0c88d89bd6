// SPDX-License-Identifier: Apache-2.0
//
// What the primitives cost, for Collective::cost(). Each function is named after the primitive
// whose messages it counts.
#pragma once

#include <vector>

#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/route.h"
#include "topknot/collective.h"

namespace topknot::collective {

class Cost {
 public:
  explicit Cost(const MessageChannel& channel) : Cost(channel, channel.size()) {}
  /// Among `ranks` of the channel's ranks.
  Cost(const MessageChannel& channel, int ranks) : channel_(channel), ranks_(ranks) {}

  // ---- the bytes of a message

  double pairs(double count, double region) const;
  double positions(double count, double region) const;
  double values(double count) const;
  static double words(double count);
  /// Pairs, or all of the region where that is shorter.
  double pairs_or_values(double count, double region) const;

  // ---- phases

  /// Allgather of one block of `bytes` from each rank.
  CostPhase allgather(double bytes, Route route = Route::ring) const;
  /// Exchange of a message of `bytes` between each two ranks.
  CostPhase exchange(double bytes, Route route = Route::direct) const;
  /// A message of `bytes` in each of ceil(log2 P) rounds: recursive doubling, a tree.
  CostPhase rounds(double bytes) const;
  /// GlobalTopK on most steps.
  CostPhase global_topk(double k) const;
  /// RankOrderSum of a vector of `count`.
  std::vector<CostPhase> rank_order_sum(double count) const;

  /// ceil(log2 P).
  double log_ranks() const;
  /// How many coordinates of `n` are in at least one of `selections` of `k`.
  static double in_union(double n, double k, double selections);

 private:
  double coded(double count, double region, core::Format format) const;

  const MessageChannel& channel_;
  const double ranks_;
};

}  // namespace topknot::collective

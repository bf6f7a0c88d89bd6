// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"

namespace topknot::collective {

/// Sums a dense vector over the ranks in rank order, so that the bits are the same on
/// every transport: everyone sends part j to rank j, which adds up, and the parts are
/// gathered. 2n(P-1)/P words a rank. A sum that overflows is reported to everyone. What
/// rounding took off at this rank, of what it sent and of the part that it added up, is
/// left in `error`, as long as `x`; empty where nothing was rounded.
class RankOrderSum {
 public:
  void run(MessageChannel& channel, std::span<float> x, std::vector<float>& error);

 private:
  Allgather allgather_;
  std::vector<Message> sent_;
  std::vector<Message> received_;
  std::vector<Region> regions_;
  std::vector<float> part_;
  std::vector<float> part_error_;
};

}  // namespace topknot::collective

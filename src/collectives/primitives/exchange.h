// SPDX-License-Identifier: Apache-2.0
//
// A personalised all-to-all of sparse vectors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/route.h"

namespace topknot::collective {

/// Every rank sends each rank its part: blocks[r] becomes what rank r had in parts[me].
/// parts[j] lies in regions[j] and has at most `most` pairs. `direct` is rotated, so that
/// no rank is the target of two at a time, with four messages on their way each way; in
/// `log` a message travels as many times as its distance has bits set. A rank's own part
/// is not rounded; errors[j][i] is what rounding took off parts[j].value[i], and
/// errors[j] is empty where nothing was rounded.
class Exchange {
 public:
  void run(MessageChannel& channel, std::span<const SparseView> parts,
           std::span<const Region> regions, std::uint64_t most,
           std::vector<Sparse>& blocks, std::vector<std::vector<float>>& errors,
           Route route = Route::direct);

 private:
  void rotate(MessageChannel& channel, std::size_t limit);
  void bruck(MessageChannel& channel, std::size_t limit);

  std::vector<Message> sent_;      // by rank of the receiver
  std::vector<Message> received_;  // by rank of the sender
  Message pack_;
  Message packed_;
};

}  // namespace topknot::collective

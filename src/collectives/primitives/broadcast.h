// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/message_channel.h"

namespace topknot::collective {

/// `pairs` of rank `root` reach every rank down a binomial tree, as everyone reads them.
class Broadcast {
 public:
  void run(MessageChannel& channel, int root, Region region, std::uint64_t most,
           Sparse& pairs, std::vector<float>& error);
  /// The same for positions alone.
  void run_positions(MessageChannel& channel, int root, Region region, std::uint64_t most,
                     std::vector<std::uint32_t>& index);
  /// The same for plain words, as many on every rank.
  void run_words(MessageChannel& channel, int root, std::span<std::uint32_t> words);

 private:
  void pass_down(MessageChannel& channel, int root, std::size_t limit);

  Message message_;
};

}  // namespace topknot::collective

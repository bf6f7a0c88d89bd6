// SPDX-License-Identifier: Apache-2.0
//
// What the ranks tell each other outside of the exchange of gradients: losses, bytes, whether
// somebody wants to leave, sums of an evaluation. Everything is added up in rank order, so that
// all ranks hear the same bits.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/rank_order_sum.h"
#include "collectives/primitives/words.h"
#include "topknot/params.h"
#include "topknot/transport.h"

namespace topknot::train {

/// All ranks call the same function with vectors of the same length. Throws LinkError.
class Conference {
 public:
  /// Takes the channel of `link` with this number for itself.
  Conference(Transport& link, int channel);

  /// Everybody's numbers, rank by rank.
  std::vector<std::vector<double>> gather(const std::vector<double>& mine);
  std::vector<double> sum(const std::vector<double>& mine);
  /// Replaces `x` with its mean over all ranks.
  void average(std::span<float> x);

 private:
  std::unique_ptr<Transport> channel_;
  Params params_;
  collective::MessageChannel channel_;
  collective::RankOrderSum sum_;
};

}  // namespace topknot::train

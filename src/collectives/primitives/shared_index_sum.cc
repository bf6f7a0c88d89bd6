// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/shared_index_sum.h"

#include "collectives/primitives/sum_writer.h"

namespace topknot::collective {

void SharedIndexSum::gather(MessageChannel& channel, std::span<const std::uint32_t> mine,
                            std::span<const Region> regions, std::uint64_t most) {
  channel.enter("share positions");
  allgather_.run_positions(channel, mine, regions, most, blocks_);
  index_.clear();
  counts_.clear();
  for (const std::vector<std::uint32_t>& block : blocks_) {
    index_.insert(index_.end(), block.begin(), block.end());
    counts_.push_back(block.size());
  }
}

void SharedIndexSum::follow(MessageChannel& channel, int leader,
                            std::span<const std::uint32_t> mine, std::uint64_t n,
                            std::uint64_t most) {
  channel.enter("share positions");
  index_.assign(mine.begin(), mine.end());
  broadcast_.run_positions(channel, leader, {0, n}, most, index_);
}

Reduced SharedIndexSum::settle(StepGuard& guard, ResidualVector& residual,
                               std::span<float> grad, std::span<float> sum) {
  MessageChannel& channel = guard.channel();
  channel.enter("sum values");
  values_.resize(index_.size());
  residual.gather(index_, values_);
  in_rank_order_.run(channel, values_, error_);
  // The same bits on every rank by now, so all ranks find the same.
  channel.report_unless_finite(values_);
  if (!channel.finite()) return guard.undo(residual, grad);
  residual.settle(index_, error_);
  write_sum({index_, values_}, grad, sum);
  return {.count = index_.size(), .index = index_, .settled = index_};
}

}  // namespace topknot::collective

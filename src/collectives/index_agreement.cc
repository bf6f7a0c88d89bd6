// SPDX-License-Identifier: Apache-2.0
#include "collectives/index_agreement.h"

#include <algorithm>
#include <cmath>

#include "core/merge.h"

namespace topknot::collective {

void IndexAgreement::gather(Courier& courier, std::span<const std::uint32_t> mine,
                            std::span<const Region> regions, std::uint64_t most) {
  courier.enter("share positions");
  allgather_.run_positions(courier, mine, regions, most, blocks_);
  index_.clear();
  counts_.clear();
  for (const std::vector<std::uint32_t>& block : blocks_) {
    index_.insert(index_.end(), block.begin(), block.end());
    counts_.push_back(block.size());
  }
}

void IndexAgreement::follow(Courier& courier, int leader,
                            std::span<const std::uint32_t> mine, std::uint64_t n,
                            std::uint64_t most) {
  courier.enter("share positions");
  index_.assign(mine.begin(), mine.end());
  broadcast_.run_positions(courier, leader, {0, n}, most, index_);
}

Reduced IndexAgreement::pay(Courier& courier, std::span<float> acc, std::span<float> grad,
                            std::span<float> sum) {
  courier.enter("sum values");
  values_.resize(index_.size());
  core::gather(acc, index_, values_);
  in_rank_order_.run(courier, values_, error_);
  // The same bits everywhere by now, so everyone finds the same.
  if (!std::all_of(values_.begin(), values_.end(),
                   [](float value) { return std::isfinite(value); }))
    courier.report_sick();
  if (!courier.finite()) return courier.undo(acc, grad);
  settle(index_, error_, acc);
  if (sum.data() == grad.data()) std::fill(sum.begin(), sum.end(), 0.0F);
  for (std::size_t i = 0; i < index_.size(); ++i) sum[index_[i]] = values_[i];
  return {.count = index_.size(), .index = index_, .paid = index_};
}

}  // namespace topknot::collective

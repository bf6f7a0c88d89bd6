// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/dropped_values.h"

#include <algorithm>

#include "core/merge.h"
#include "core/plant.h"
#include "core/select.h"

namespace topknot::collective {
namespace {

/// Calls `found` with the places in `a` and in `b` of every position that both have.
template <typename Found>
void for_each_common(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                     Found found) {
  if (a.empty()) return;
  auto j =
      static_cast<std::size_t>(std::lower_bound(b.begin(), b.end(), a[0]) - b.begin());
  for (std::size_t i = 0; i < a.size(); ++i) {
    while (j < b.size() && b[j] < a[i]) ++j;
    if (j == b.size()) return;
    if (b[j] == a[i]) found(i, j);
  }
}

}  // namespace

DroppedValues::Batch& DroppedValues::next(bool dropped) {
  if (used_ == batches_.size()) batches_.emplace_back();
  Batch& batch = batches_[used_++];
  batch.pairs.clear();
  batch.dropped = dropped;
  return batch;
}

void DroppedValues::cut(Sparse& pairs, std::size_t k, bool keeper) {
  if (pairs.size() <= k) return;
  if (!keeper && !TOPKNOT_PLANT(everyone_keeps_what_is_dropped))
    return core::keep_largest(pairs, k);
  before_.clear();
  before_.append(pairs);
  core::keep_largest(pairs, k);
  Sparse& dropped = next(/*dropped=*/true).pairs;
  dropped.reserve(before_.size() - pairs.size());
  std::size_t j = 0;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (j < pairs.size() && pairs.index[j] == before_.index[i]) {
      ++j;
    } else {
      dropped.push_back(before_.index[i], before_.value[i]);
    }
  }
}

void DroppedValues::keep_error(std::span<const std::uint32_t> index,
                               std::span<const float> error) {
  if (!error.empty()) next(/*dropped=*/false).pairs.append({index, error});
}

void DroppedValues::restrict_to(std::span<const std::uint32_t> positions) {
  for (std::size_t l = 0; l < used_; ++l) {
    Sparse& pairs = batches_[l].pairs;
    std::size_t kept = 0;
    for_each_common(pairs.index, positions, [&](std::size_t i, std::size_t) {
      pairs.index[kept] = pairs.index[i];
      pairs.value[kept++] = pairs.value[i];
    });
    pairs.resize(kept);
  }
}

void DroppedValues::settle(ResidualVector& residual,
                           std::vector<std::uint32_t>& settled) {
  unsettled_.assign(settled.size(), false);
  for (std::size_t l = 0; l < used_; ++l) {
    if (!TOPKNOT_PLANT(dropped_values_lost)) residual.add(batches_[l].pairs);
    if (!batches_[l].dropped) continue;
    for_each_common(batches_[l].pairs.index, settled,
                    [&](std::size_t, std::size_t j) { unsettled_[j] = true; });
  }
  std::size_t kept = 0;
  for (std::size_t j = 0; j < settled.size(); ++j)
    if (!unsettled_[j]) settled[kept++] = settled[j];
  settled.resize(kept);
}

}  // namespace topknot::collective

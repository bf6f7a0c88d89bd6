// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/bruck.h"

#include <algorithm>

namespace topknot::collective {

std::vector<BruckRound> bruck_rounds(const Subgroup& group) {
  std::vector<BruckRound> rounds;
  for (int gap = 1; gap < group.size(); gap *= 2)
    rounds.push_back({.gap = gap,
                      .count = std::min(gap, group.size() - gap),
                      .to = group.rank(group.member(-gap)),
                      .from = group.rank(group.member(gap))});
  return rounds;
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// Bruck's allgather: every member has every member's block after ceil(log2 size) messages.
#pragma once

#include <vector>

#include "collectives/primitives/subgroup.h"

namespace topknot::collective {

/// Before a round a member holds its own block and those of the next gap - 1 members to its
/// right. It sends the first `count` of these, its own first, and receives those of the
/// members gap, gap + 1, ... to its right.
struct BruckRound {
  int gap;
  int count;
  int to;    ///< the rank that is `gap` members to the left
  int from;  ///< the rank that is `gap` members to the right
};

std::vector<BruckRound> bruck_rounds(const Subgroup& group);

}  // namespace topknot::collective

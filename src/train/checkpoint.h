// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint of training has in it. Shared, from rank 0: weights, what the optimizer
// keeps, where training stands, and rank 0's running statistics for ranks that come new.
// Own, from each rank: what its compression owes and knows, and its running statistics
// and what its task carries from pass to pass.
//
// With local steps the optimizer is each rank's own. It is in the own part, and rank 0's in
// the shared one for ranks that come new; the outer optimizer is shared. There is nothing of a
// round in it: checkpoints are written between rounds.
#pragma once

#include "job/optimizer.h"
#include "job/rates.h"
#include "store/checkpoint.h"
#include "train/replica.h"
#include "train/task.h"

namespace topknot::train {

/// All that changes while training goes on, where it lies.
struct Live {
  Task& task;
  Replica& replica;
  Optimizer& optimizer;
  Rates& rates;
  Position& position;
  Optimizer* outer;  ///< of local steps; null without
};

/// They look at the live memory: nothing may change before they are written.
struct Snapshot {
  store::Container shared;  ///< the same on all ranks
  store::Container own;
};
Snapshot snapshot(Live live);

/// Puts everything back. Throws ConfigError when the optimizer kept something else.
void restore(const store::Loaded& from, Live live);

}  // namespace topknot::train

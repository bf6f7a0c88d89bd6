// SPDX-License-Identifier: Apache-2.0
//
// The contents of a checkpoint. The shared part, from rank 0: weights, the optimizer's state, the
// position in the run, and rank 0's running statistics, which ranks added later start from. The
// own part, from each rank: residuals and other state of its compression, running statistics, and
// what its task carries from pass to pass.
//
// With local steps each rank has an optimizer state of its own, which is in the own part; rank
// 0's is in the shared part too, for ranks added later. The outer optimizer's state is shared.
// Checkpoints are written between rounds, so they have no state of a round.
#pragma once

#include "job/optimizer.h"
#include "job/rates.h"
#include "store/checkpoint.h"
#include "train/replica.h"
#include "train/task.h"

namespace topknot::train {

/// References to all that changes in training.
struct Live {
  Task& task;
  Replica& replica;
  Optimizer& optimizer;
  Rates& rates;
  Position& position;
  Optimizer* outer;  ///< of local steps; null without
};

/// The containers are views of the live memory: nothing may change before they are written or
/// copied.
struct Snapshot {
  store::Container shared;  ///< the same on all ranks
  store::Container own;
};
Snapshot snapshot(Live live);

/// Restores everything. Throws ConfigError where the checkpoint was made with another optimizer,
/// with or without local steps, or with another unit of the residuals.
void restore(const store::Loaded& from, Live live);

}  // namespace topknot::train

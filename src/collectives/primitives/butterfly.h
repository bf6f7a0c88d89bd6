// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/primitives/dropped_values.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/subgroup.h"
#include "topknot/sparse.h"

namespace topknot::collective {

/// Sums sparse vectors over a power of two of ranks, keeping at most `most` pairs after
/// each of log2 size rounds, in which a member merges with the one whose place differs in
/// one bit.
///
/// After round i the 2^i members whose places agree but for the lowest i bits hold the
/// same bits: each uses its own set as its partner reads it, and adds that of the lower
/// place first. They round and drop alike, and the lowest of them alone keeps that in
/// dropped.
class Butterfly {
 public:
  void run(MessageChannel& channel, const Subgroup& group, Region region,
           std::size_t most, Sparse& held, DroppedValues& dropped);

 private:
  Message out_;
  Message in_;
  Sparse theirs_;
  Sparse merged_;
  std::vector<float> error_;
};

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
//
// Keeps the gradients of chosen steps and ranks for the benchmarks. Rank 0 has the file:
// the others send it theirs, parameter by parameter, on a channel of its own. What is
// recorded stays in rank 0's memory until the last chosen step, and the file is written
// then, whole.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "store/container.h"
#include "topknot/transport.h"
#include "train/replica.h"
#include "train/train.h"
#include "transports/control_channel.h"

namespace topknot::train {

class Recorder {
 public:
  /// Does nothing, ever, when `options` name no file. Throws ConfigError for a rank that
  /// is not there.
  Recorder(Transport& link, int channel, const Job& job, const RecordOptions& options);

  /// For a run of the steps [first, end). Chosen steps before `first` are passed over.
  /// Throws ConfigError for one that does not come, or when none is left.
  void plan(std::uint64_t first, std::uint64_t end);

  bool wants(std::uint64_t step) const { return steps_.contains(step); }

  /// All ranks call when their gradients of a wanted step are complete and none of them has
  /// set out. Throws StorageError, on all ranks, when the file cannot be written.
  void take(std::uint64_t step, Replica& replica);

  /// The run has ended, maybe before the last chosen step: writes what there is.
  /// Returns the number of steps that are in the file; there is none when that is 0.
  std::uint64_t finish();

 private:
  /// On rank 0 the gradients of the ranks to record, by rank; nothing elsewhere.
  std::vector<std::vector<float>> gather(std::span<const float> mine);
  void write();

  std::optional<ControlChannel> control_;
  const RecordOptions options_;
  std::set<std::uint64_t> steps_;  // still to come
  std::vector<int> ranks_;
  store::Container taken_;  // at rank 0
  bool unwritten_ = false;
  std::uint64_t count_ = 0;
};

}  // namespace topknot::train

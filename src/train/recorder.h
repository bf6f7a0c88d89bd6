// SPDX-License-Identifier: Apache-2.0
//
// Records the gradients of chosen steps and ranks for the benchmarks. The other ranks send
// theirs to rank 0, parameter by parameter, on a channel of the recorder's own. Rank 0 keeps them
// in memory and writes the whole file after the last chosen step.
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
  /// Never records when `options` name no file. Throws ConfigError for a rank that does not
  /// exist.
  Recorder(Transport& link, int channel, const Job& job, const RecordOptions& options);

  /// For a run of the steps [first, end). Ignores chosen steps before `first`. Throws
  /// ConfigError for a step at or after `end`, or when none is left.
  void plan(std::uint64_t first, std::uint64_t end);

  bool wants(std::uint64_t step) const { return steps_.contains(step); }

  /// All ranks call it when the gradients of a wanted step are complete and none has been
  /// handed to the engine. Throws StorageError, on all ranks, when the file cannot be written.
  void take(std::uint64_t step, Replica& replica);

  /// Called at the end of the run, which may come before the last chosen step: writes the file
  /// if it is not written yet. Returns the number of steps in it; at 0 there is no file.
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

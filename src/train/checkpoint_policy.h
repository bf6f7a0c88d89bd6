// SPDX-License-Identifier: Apache-2.0
//
// When a run saves itself and what it resumes from. A checkpoint is copied between two rounds and
// written by a thread beside the next ones. docs/checkpoints.md has the files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/background_save.h"
#include "store/checkpoint.h"
#include "train/checkpoint.h"

namespace topknot::train {

/// Under which a checkpoint's shared part has Job::auto_choice, as text.
inline constexpr const char* kAutoChoice = "auto";

class CheckpointPolicy {
 public:
  /// Never saves when `options` name no folder; otherwise takes the channel of `link` with
  /// this number for itself. `job` must outlive the object.
  CheckpointPolicy(const Job& job, const TrainOptions& options, Transport& link,
                   int channel);

  /// Makes this run the folder's writer and, where the options ask for it, restores the newest
  /// checkpoint. Says in `notices` what was passed over or resized. Throws NoCheckpointError,
  /// ConfigError, StorageError.
  void resume(Live live, std::vector<std::string>& notices);

  /// Checkpoints before this step are not due any more.
  void start_at(std::uint64_t step) { asked_at_ = step; }
  /// Asked once between rounds: whether a checkpoint has fallen due since it was last asked.
  bool is_due(std::uint64_t step, bool epoch_ended, bool run_ends);
  /// Waits for the last save, as finish() does without `must_succeed`, then starts the next.
  void save(Live live, Observer& observer);
  /// Whether a save is under way that this rank has come to the end of.
  bool is_written() const { return saves_ && saves_->is_done(); }
  /// Waits for a save that is under way and reports it to `observer`. All ranks must call it
  /// between the same two rounds. A checkpoint that cannot be written ends the run (StorageError)
  /// when it is the third in a row or `must_succeed`.
  void finish(Observer& observer, bool must_succeed = false);
  /// Memory that the copies took.
  std::uint64_t copied_bytes() const { return saves_ ? saves_->most_bytes() : 0; }

 private:
  const Job& job_;
  const bool resumes_;
  std::optional<store::CheckpointFolder> folder_;
  std::unique_ptr<Transport> link_;
  std::optional<store::BackgroundSave> saves_;
  std::uint64_t asked_at_ = 0;  // the step of the last is_due()
  int failures_ = 0;            // in a row
};

}  // namespace topknot::train

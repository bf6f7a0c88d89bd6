// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints that are written beside the training: the caller is held up for the copy of what is
// saved, not for the disk.
//
//     BackgroundSave saves(folder, link);
//     saves.start(step, shared, own, origin);   // views of memory that may change from here on
//     ... steps ...
//     saves.finish();                           // waits; throws what CheckpointFolder::save threw
#pragma once

#include <cstdint>
#include <future>
#include <optional>

#include "store/checkpoint.h"

namespace topknot::store {

class BackgroundSave {
 public:
  /// Both must outlive the object. While a save is under way, they are its thread's alone.
  BackgroundSave(CheckpointFolder& folder, Transport& link)
      : folder_(folder), link_(link) {}
  /// Waits for a save that is under way, and forgets what became of it.
  ~BackgroundSave() = default;
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// All ranks together, with the same step and none under way: copies what the containers only
  /// refer to, and starts a thread that saves. Rank 0 alone writes, and so copies, the shared part.
  void start(std::uint64_t step, Container shared, Container own, const Origin& origin);

  /// From start() to finish().
  bool is_under_way() const noexcept { return result_.valid(); }
  /// Whether finish() would not wait. Ranks may differ.
  bool is_done() const;

  struct Saved {
    std::uint64_t step = 0;
    double seconds = 0;  ///< that writing took
  };
  /// Waits for the save. Throws what it threw, as CheckpointFolder::save: a StorageError is thrown
  /// on all ranks.
  Saved finish();

  /// What the copies took, of the save that took most.
  std::uint64_t most_bytes() const noexcept { return most_bytes_; }

 private:
  CheckpointFolder& folder_;
  Transport& link_;
  std::uint64_t most_bytes_ = 0;
  std::future<Saved> result_;
};

}  // namespace topknot::store

// SPDX-License-Identifier: Apache-2.0
//
// MPI as the whole process has it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

namespace topknot::mpi {

/// MPI itself, shared by every channel of the process and ended after the last of them.
class Session {
 public:
  static std::shared_ptr<Session> get();

  Session();
  /// Where a channel died a rank may be gone, and MPI_Finalize would wait for it for ever.
  /// The process then ends without, which tells the launcher to end the job.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Held around calls of MPI; locks nothing where MPI does so itself.
  std::unique_lock<std::mutex> enter() {
    return one_at_a_time_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }

  void abandon() noexcept { abandoned_ = true; }

  /// Keeps `memory`, which MPI may still read or write, until the process ends.
  static void keep(std::shared_ptr<const void> memory);

 private:
  std::mutex mutex_;
  bool ours_ = false;
  bool one_at_a_time_ = false;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace topknot::mpi

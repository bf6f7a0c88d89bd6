// SPDX-License-Identifier: Apache-2.0
//
// MPI's state in this process.
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
  /// Ends MPI, unless a channel has failed: a rank may then be lost, and MPI_Finalize would wait
  /// for it forever. The process then ends without it, and the launcher ends the job.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Held around calls of MPI. Locks nothing where MPI has locks of its own.
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

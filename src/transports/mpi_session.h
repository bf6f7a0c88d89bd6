// SPDX-License-Identifier: Apache-2.0
//
// MPI as the whole process has it, and the ranks of one make_mpi() as all their channels have
// them.
#pragma once

#include <mpi.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "topknot/transports.h"
#include "transports/failure_agreement.h"

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

/// The ranks of one make_mpi() and what ended their job, if anything did. Control messages
/// have a communicator of their own and move when attend() is called.
class Job {
 public:
  /// All ranks call this together; it has no deadline, as MPI_Init has none, and errors end
  /// the job, as MPI's own rule is.
  Job(std::shared_ptr<Session> session, const LinkOptions& options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Session& session() const noexcept { return *session_; }
  const LinkOptions& options() const noexcept { return options_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(hosts_.size()); }
  /// The first rank on the host of `rank`.
  int host_of(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  transports::FailureAgreement& agreement() noexcept { return *agreement_; }

  /// Takes the control messages that have come. Must not be called inside session().enter().
  void attend();

 private:
  using Bytes = transports::FailureAgreement::Bytes;
  struct Posted {
    std::shared_ptr<const Bytes> message;
    MPI_Request request;
  };

  void post(int to, Bytes message);
  void forget_sent();

  const std::shared_ptr<Session> session_;
  const LinkOptions options_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<int> hosts_;
  std::unique_ptr<transports::FailureAgreement> agreement_;
  std::mutex mutex_;
  std::deque<Posted> posted_;
};

}  // namespace topknot::mpi

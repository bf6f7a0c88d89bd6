// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "topknot/transports.h"
#include "transports/failure_agreement.h"
#include "transports/mpi/session.h"

namespace topknot::mpi {

/// The ranks of one make_mpi(), shared by all their channels, and the cause of their failure, if
/// any. Control messages have a communicator of their own; receive_control() receives them.
class Job {
 public:
  /// All ranks call this together. It has no deadline, as MPI_Init has none, and errors of MPI end
  /// the job, as is MPI's default.
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

  /// Receives the control messages that have come. Must not be called inside session().enter().
  void receive_control();

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

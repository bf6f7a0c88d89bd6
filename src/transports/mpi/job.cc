// SPDX-License-Identifier: Apache-2.0
#include "transports/mpi/job.h"

#include <array>
#include <utility>

namespace topknot::mpi {
namespace {

using transports::FailureAgreement;

constexpr int kControlTag = 0;

// By rank: the lowest rank that it shares memory with.
std::vector<int> find_hosts(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
  int first = rank;
  MPI_Bcast(&first, 1, MPI_INT, 0, host);
  MPI_Comm_free(&host);
  std::vector<int> hosts(static_cast<std::size_t>(size));
  MPI_Allgather(&first, 1, MPI_INT, hosts.data(), 1, MPI_INT, comm);
  return hosts;
}

}  // namespace

Job::Job(std::shared_ptr<Session> session, const LinkOptions& options)
    : session_(std::move(session)), options_(options) {
  const auto guard = session_->enter();
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  hosts_ = find_hosts(comm_);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  agreement_ = std::make_unique<FailureAgreement>(
      rank_, size(), options.timeout,
      FailureAgreement::Network{
          [this](int to, Bytes message) { post(to, std::move(message)); },
          [this] { session_->abandon(); }});  // a rank that waits polls anyway
}

Job::~Job() {
  const auto guard = session_->enter();
  forget_sent();
  if (posted_.empty() && !agreement_->failed()) {
    MPI_Comm_free(&comm_);
    return;
  }
  session_->abandon();
  for (Posted& posted : posted_) {
    MPI_Request_free(&posted.request);
    Session::keep(std::move(posted.message));
  }
}

void Job::receive_control() {
  for (;;) {
    std::array<std::byte, FailureAgreement::kMostBytes> bytes;
    MPI_Status status;
    int count = 0;
    {
      const auto guard = session_->enter();
      int here = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      if (MPI_Improbe(MPI_ANY_SOURCE, kControlTag, comm_, &here, &message, &status) !=
              MPI_SUCCESS ||
          !here)
        return;
      MPI_Get_count(&status, MPI_BYTE, &count);
      if (count > static_cast<int>(bytes.size()) ||
          MPI_Mrecv(bytes.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE) !=
              MPI_SUCCESS)
        return;
    }
    agreement_->receive(status.MPI_SOURCE,
                        std::span(bytes).first(static_cast<std::size_t>(count)));
  }
}

// Nobody waits for these messages: a rank that does not get one finds the failure itself.
void Job::post(int to, Bytes message) {
  const auto guard = session_->enter();
  const std::scoped_lock lock(mutex_);
  forget_sent();
  Posted posted{std::make_shared<const Bytes>(std::move(message)), MPI_REQUEST_NULL};
  if (MPI_Isend(posted.message->data(), static_cast<int>(posted.message->size()),
                MPI_BYTE, to, kControlTag, comm_, &posted.request) == MPI_SUCCESS)
    posted_.push_back(std::move(posted));
}

void Job::forget_sent() {
  std::erase_if(posted_, [](Posted& posted) {
    int done = 0;
    return MPI_Test(&posted.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
  });
}

}  // namespace topknot::mpi

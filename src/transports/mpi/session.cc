// SPDX-License-Identifier: Apache-2.0
#include "transports/mpi/session.h"

#include <mpi.h>

#include <utility>
#include <vector>

#include "topknot/error.h"

namespace topknot::mpi {

std::shared_ptr<Session> Session::get() {
  static std::mutex mutex;
  static std::weak_ptr<Session> current;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Session> session = current.lock();
  if (!session) current = session = std::make_shared<Session>();
  return session;
}

Session::Session() {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (ended) {
    throw ConfigError("MPI has already ended in this process and cannot start again.");
  }
  int level = MPI_THREAD_SINGLE;
  if (started) {
    MPI_Query_thread(&level);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    ours_ = true;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    if (ours_) MPI_Finalize();
    throw ConfigError(
        "MPI must run at MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, but this one "
        "was started at a lower level: start it with MPI_Init_thread, or leave that to "
        "us.");
  }
  one_at_a_time_ = level < MPI_THREAD_MULTIPLE;
}

Session::~Session() {
  if (ours_ && !abandoned_) MPI_Finalize();
}

void Session::keep(std::shared_ptr<const void> memory) {
  static std::mutex mutex;
  // Never destroyed: MPI may use the memory until the process ends.
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace topknot::mpi

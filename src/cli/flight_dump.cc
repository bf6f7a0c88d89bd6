// SPDX-License-Identifier: Apache-2.0
#include "cli/flight_dump.h"

#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "transports/flight_file.h"

namespace topknot::cli {
namespace {

std::atomic<const FlightDumps*> current = nullptr;
static_assert(std::atomic<const FlightDumps*>::is_always_lock_free);

}  // namespace

FlightDumps::FlightDumps(std::string folder, int first, int count, int ranks)
    : folder_(std::move(folder)), first_(first), ranks_(ranks) {
  if (folder_.empty()) return;
  for (int rank = first; rank < first + count; ++rank) {
    own_.push_back(std::make_unique<Rank>());
    own_.back()->rank = rank;
    own_.back()->file = flight_file(folder_, rank);
    std::error_code none;
    std::filesystem::remove(own_.back()->file, none);
  }
  current = this;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR2, &action, nullptr);
}

FlightDumps::~FlightDumps() {
  if (folder_.empty()) return;
  ::signal(SIGUSR2, SIG_IGN);  // one that is on its way is not to end the process
  current = nullptr;
}

Transport& FlightDumps::stand_before(Transport& link) {
  if (folder_.empty()) return link;
  Rank& own = *own_.at(static_cast<std::size_t>(link.rank() - first_));
  own.link = make_recorded(link, own.record);
  return *own.link;
}

void FlightDumps::failed(int rank, const std::exception_ptr& error) noexcept {
  if (folder_.empty()) return;
  const Rank& own = *own_[static_cast<std::size_t>(rank - first_)];
  dump_flight(folder_, rank, ranks_, own.record, error);
}

void FlightDumps::on_signal(int) {
  const int saved = errno;
  if (const FlightDumps* dumps = current) dumps->dump_all();
  errno = saved;
}

void FlightDumps::dump_all() const noexcept {
  ::mkdir(folder_.c_str(), 0777);
  for (const auto& own : own_)
    write_flight(own->file.c_str(), own->rank, ranks_, own->record, {});
}

}  // namespace topknot::cli

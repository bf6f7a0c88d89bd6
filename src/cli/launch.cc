// SPDX-License-Identifier: Apache-2.0
#include "cli/launch.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/report.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

/// How many processes a launcher says it has started; nothing when none did.
std::optional<int> launched_size() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  // Slurm sets its variables in the batch script too; only a step has a process id of its
  // own.
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks != nullptr && std::getenv("SLURM_PROCID") != nullptr) return std::atoi(tasks);
  return std::nullopt;
}

#ifdef TOPKNOT_HAVE_MPI
/// Ends the job with the exception under way. Its cause is printed before anything else is
/// done, for the other ranks may wait for this one, and MPI for all of them.
[[noreturn]] void end_job(int rank) {
  const std::exception_ptr cause = std::current_exception();
  const int exit_code = report(cause, "rank " + std::to_string(rank));
  std::fflush(nullptr);
  // All ranks know of a lost peer or a disagreement by now: each of them may print it.
  if (blames_a_peer(cause)) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  end_mpi_job(exit_code);
  std::_Exit(exit_code);
}

void run_process(const Launch& launch, int launched,
                 const std::function<void(Transport&)>& rank_main) {
  const auto link = make_mpi(launch.link);
  if (link->size() != launched)
    throw ConfigError(
        "The launcher started " + std::to_string(launched) +
        " processes but each is alone: topknot was built for another MPI than "
        "the one whose mpirun this is; use that one's (see `topknot list`).");
  if (launch.workers && *launch.workers != link->size())
    throw ConfigError("The launcher started " + std::to_string(link->size()) +
                      " ranks, so --workers " + std::to_string(*launch.workers) +
                      " cannot be; leave it out or start " +
                      std::to_string(*launch.workers) + " processes.");
  if (link->size() == 1) return rank_main(*link);
  try {
    rank_main(*link);
  } catch (...) {
    end_job(link->rank());
  }
}
#else
void run_process(const Launch&, int launched, const std::function<void(Transport&)>&) {
  throw ConfigError("A launcher started " + std::to_string(launched) +
                    " processes but this topknot was built without MPI: install "
                    "libopenmpi-dev and build again, or run it alone with --workers.");
}
#endif

void run_threads(int workers, const LinkOptions& options,
                 const std::function<void(Transport&)>& rank_main) {
  auto links = make_inproc(workers, options);
  std::mutex mutex;
  std::exception_ptr cause;  // other ranks only report that a rank has left
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < links.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        rank_main(*links[rank]);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!cause || (blames_a_peer(cause) && !blames_a_peer(std::current_exception())))
          cause = std::current_exception();
      }
      links[rank].reset();  // so that no rank waits for one that has left
    });
  for (std::thread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
}

}  // namespace

bool under_launcher() { return launched_size().value_or(0) > 0; }

void run_ranks(const Launch& launch, int fallback,
               const std::function<void(Transport&)>& rank_main) {
  if (const auto launched = launched_size(); launched && *launched > 0)
    return run_process(launch, *launched, rank_main);
  run_threads(launch.workers.value_or(fallback), launch.link, rank_main);
}

}  // namespace topknot::cli

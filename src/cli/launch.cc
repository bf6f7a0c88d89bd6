// SPDX-License-Identifier: Apache-2.0
#include "cli/launch.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/errors.h"
#include "cli/flight_dump.h"
#include "cli/help.h"
#include "cli/interfaces.h"
#include "cli/launcher.h"
#include "core/text.h"
#include "topknot/error.h"
#include "transports/held_back.h"
#ifdef TOPKNOT_HAVE_MPI
#include "transports/mpi/library.h"
#endif

namespace topknot::cli {
namespace {

#ifdef TOPKNOT_HAVE_MPI
/// Ends the job with the exception under way. Its cause is dumped and printed before anything
/// else is done, for the other ranks may wait for this one, and MPI for all of them.
[[noreturn]] void end_job(int rank, FlightDumps& flights) {
  const std::exception_ptr cause = std::current_exception();
  flights.failed(rank, cause);
  const int exit_code = report_error(cause, "rank " + std::to_string(rank));
  std::fflush(nullptr);
  // All ranks know of a lost peer or a disagreement by now: each of them may print it.
  if (blames_a_peer(cause)) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  // Open MPI may take a second to end a process that asks for it. Exiting says the same.
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::_Exit(exit_code);
  }).detach();
  end_mpi_job(exit_code);
  std::_Exit(exit_code);
}

/// While this exists MPI brings the ranks together. After launch.link.timeout the one that speaks for
/// its host says what may be wrong; after kPatience times as long the process ends. Where the one
/// that speaks is itself missing, another says so a second later.
class Impatience {
 public:
  static constexpr double kPatience = 5;

  Impatience(double timeout, bool speaks, std::string ranks, std::string advice)
      : thread_([=, this] {
          if (over_within(timeout)) return;
          if (speaks)
            complain("MPI has not brought the " + ranks + " together yet: " + advice, 0);
          if (over_within((kPatience - 1) * timeout + (speaks ? 0 : 1))) return;
          std::_Exit(complain("MPI has not brought the " + ranks + " together within " +
                                  core::shortest(kPatience * timeout) + " s: " + advice,
                              kPeerLost));
        }) {}
  ~Impatience() {
    {
      const std::scoped_lock lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  bool over_within(double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                             [this] { return done_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

std::unique_ptr<Transport> open_link(const Launch& launch, const Launcher& launcher) {
  const bool speaks = launcher.local_rank.value_or(0) == 0;  // one on each host
  if (const std::string why = why_not_mpi(launcher, mpi_library()); !why.empty())
    throw ConfigError(why);
  try {
    choose_interface(launch.interface);
  } catch (const ConfigError&) {
    if (speaks) throw;  // and the launcher ends the others
  }
  const std::string network = interfaces_in_use();
  const Impatience impatience(
      launch.link.timeout, speaks, std::to_string(launcher.size) + " ranks",
      "one has not started, or the hosts cannot reach each other by " +
          (network.empty() ? "any network" : network) + "; --interface takes another.");
  return make_mpi(launch.link);
}

void run_process(const Launch& launch, const Launcher& launcher,
                 const std::function<void(Transport&)>& rank_main) {
  const auto link = open_link(launch, launcher);
  if (link->size() != launcher.size)
    throw ConfigError("The launcher started " + std::to_string(launcher.size) +
                      " processes but each is alone: topknot was built for " +
                      mpi_library() + ", and this " + launcher.name +
                      " is not its own; use that (mpirun.openmpi, mpirun.mpich), or srun "
                      "--mpi=pmix for Open MPI and --mpi=pmi2 for MPICH.");
  if (launch.workers && *launch.workers != link->size())
    throw ConfigError("The launcher started " + std::to_string(link->size()) +
                      " ranks, so --workers " + std::to_string(*launch.workers) +
                      " cannot be; leave it out or start " +
                      std::to_string(*launch.workers) + " processes.");
  if (link->size() == 1) return rank_main(*link);
  FlightDumps flights(launch.flight, link->rank(), 1, link->size());
  try {
    rank_main(flights.stand_before(*link));
  } catch (...) {
    end_job(link->rank(), flights);
  }
}
#else
void run_process(const Launch&, const Launcher& launcher,
                 const std::function<void(Transport&)>&) {
  throw ConfigError(launcher.name + " started " + std::to_string(launcher.size) +
                    " processes but this topknot was built without MPI: install "
                    "libopenmpi-dev and build again, or run it alone with --workers.");
}
#endif

}  // namespace

void run_threads(int workers, const Launch& launch,
                 const std::function<void(Transport&)>& rank_main) {
  auto links = make_inproc(workers, launch.link);
  if (launch.network) links = make_held_back(std::move(links), *launch.network);
  FlightDumps flights(launch.flight, 0, workers, workers);
  std::mutex mutex;
  std::exception_ptr cause;  // other ranks only report that a rank has left
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < links.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        rank_main(flights.stand_before(*links[rank]));
      } catch (...) {
        flights.failed(static_cast<int>(rank), std::current_exception());
        const std::scoped_lock lock(mutex);
        if (!cause || (blames_a_peer(cause) && !blames_a_peer(std::current_exception())))
          cause = std::current_exception();
      }
      links[rank].reset();  // so that no rank waits for one that has left
    });
  for (std::thread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
}

void add_interface(CLI::App& command, std::string& interface) {
  command
      .add_option("--interface", interface,
                  "Network interface for messages between hosts, as eth0")
      ->type_name("NAME")
      ->envname("TOPKNOT_INTERFACE")
      ->group(kAlso);
}

bool under_launcher() { return find_launcher().has_value(); }

std::string describe_place(const Transport& link, int threads) {
  std::set<int> hosts;
  for (int rank = 0; rank < link.size(); ++rank) hosts.insert(link.node_of(rank));
  const auto count = [](std::size_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  std::string text = count(static_cast<std::size_t>(link.size()), "rank") + " on " +
                     count(hosts.size(), "host");
  if (const auto launcher = find_launcher()) text += ", started by " + launcher->name;
  text += "; " + count(static_cast<std::size_t>(threads), "thread") + " each";
  const ThreadsOfRank granted = granted_threads();
  if (granted.count == threads && !granted.source.empty())
    text += " (" + granted.source + ")";
  if (hosts.size() > 1)
    if (const std::string network = interfaces_in_use(); !network.empty())
      text += "; network " + network;
  return text;
}

bool is_first_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name)) return std::atoi(value) == 0;
  return true;
}

void run_ranks(const Launch& launch, int fallback,
               const std::function<void(Transport&)>& rank_main) {
  if (const auto launcher = find_launcher(); launcher && launcher->size > 0) {
    if (launch.network)
      throw ConfigError(
          "A link is modelled between threads alone: the processes of a launcher have a "
          "network of their own, or scripts/cluster makes one.");
    return run_process(launch, *launcher, rank_main);
  }
  if (const std::string said = forgotten_launcher(); !said.empty()) complain(said, 0);
  run_threads(launch.workers.value_or(fallback), launch, rank_main);
}

}  // namespace topknot::cli

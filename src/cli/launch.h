// SPDX-License-Identifier: Apache-2.0
//
// Where a command's ranks are: threads of this process, or the processes of an MPI job.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "topknot/simulated.h"
#include "topknot/transports.h"

namespace topknot::cli {

struct Launch {
  std::optional<int> workers;  ///< as asked for; an MPI job has its own number
  LinkOptions link;
  std::string interface;  ///< of the network, for messages between hosts; empty: any
  /// Between threads: every message is held back as long as this would take.
  std::optional<Network> network;
  std::string flight;  ///< folder for the dumps of ranks that fail; empty: none
};

/// The flag for Launch::interface.
void add_interface(CLI::App& command, std::string& interface);

/// Whether a launcher (mpirun, srun) started this process, so that it is one rank.
bool under_launcher();
/// Whether this process is the launcher's first, or alone: the one that speaks for all.
bool is_first_process();

/// Calls `rank_main` on so many threads, as run_ranks() does.
void run_threads(int workers, const Launch& launch,
                 const std::function<void(Transport&)>& rank_main);

/// Where the ranks of `link` are, and with how many threads each, in a line for people.
std::string describe_place(const Transport& link, int threads);

/// Calls `rank_main` once a rank: on `workers` threads (else `fallback` of them), or once
/// in this process when a launcher (mpirun, srun) started it. Throws what a thread threw: the
/// cause rather than an error that followed from it. Where one of several processes throws,
/// the cause is printed and the job ends with its exit code. Throws ConfigError when a launcher's
/// processes cannot see one another. While MPI brings them together, a sentence says after
/// launch.link.timeout what may be wrong; after 5 times that the process ends with kPeerLost.
void run_ranks(const Launch& launch, int fallback,
               const std::function<void(Transport&)>& rank_main);

}  // namespace topknot::cli

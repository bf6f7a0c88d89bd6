// SPDX-License-Identifier: Apache-2.0
//
// What the programs that start several processes at once tell each of them by its environment:
// mpirun and mpiexec (Open MPI, MPICH, Cray's PALS), Slurm's srun, torchrun.
#pragma once

#include <optional>
#include <string>

namespace topknot::cli {

struct Launcher {
  std::string name;               ///< "mpirun", "mpiexec", "srun" or "torchrun"
  int size = 0;                   ///< processes that it has started
  std::optional<int> local_rank;  ///< among those on this host
};

/// The launcher of this process; none where it is not one of several that are to work together.
/// A shell that is Slurm's only task has started what runs in it by itself.
std::optional<Launcher> find_launcher();

/// Why MPI, of the library that says it is `mpi_library`, cannot bring the processes of
/// `launcher` together; empty where nothing is known against it.
std::string why_not_mpi(const Launcher& launcher, const std::string& mpi_library);

/// Tasks that a scheduler has granted to a command which uses one of them: a sentence for
/// people who forgot the launcher. Empty where that is not so.
std::string forgotten_launcher();

/// How many threads a rank's arithmetic may use, and who said so.
struct ThreadsOfRank {
  int count = 1;
  std::string source;  ///< a variable, or empty where nobody did
};

/// What the allocation grants to a process that a launcher has started, and no more than the
/// processors that it may run on; 1 for all others.
ThreadsOfRank granted_threads();

}  // namespace topknot::cli

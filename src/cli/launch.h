// SPDX-License-Identifier: Apache-2.0
//
// Where a command's ranks are: threads of this process, or the processes of an MPI job.
#pragma once

#include <functional>
#include <optional>

#include "topknot/transports.h"

namespace topknot::cli {

struct Launch {
  std::optional<int> workers;  ///< as asked for; an MPI job has its own number
  LinkOptions link;
};

/// Whether a launcher (mpirun, srun) started this process, so that it is one rank.
bool under_launcher();

/// Calls `rank_main` once a rank: on `workers` threads (else `fallback` of them), or once
/// in this process when a launcher (mpirun, srun) started it. Throws what a thread threw: the
/// cause rather than an error that followed from it. Where one of several processes throws,
/// the cause is printed and the job ends with its exit code. Throws ConfigError when a launcher's
/// processes cannot see one another.
void run_ranks(const Launch& launch, int fallback,
               const std::function<void(Transport&)>& rank_main);

}  // namespace topknot::cli

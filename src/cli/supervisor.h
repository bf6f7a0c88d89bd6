// SPDX-License-Identifier: Apache-2.0
//
// Starts the ranks of a training run, and starts them again when some of them die. docs/train.md
// says which ends it answers with a restart, and which it passes on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_folder.h"

namespace topknot::cli {

struct Supervision {
  /// What each rank runs, but for what changes from one attempt to the next: how it uses the
  /// folder, and the number of workers.
  std::vector<std::string> command;
  /// Takes -n and the number of ranks; none: the ranks are threads of one process.
  std::vector<std::string> launcher;
  std::filesystem::path out;  ///< the run's folder; may be empty where restarts is 0
  FolderUse use = FolderUse::fresh;
  int workers = 1;
  int least_workers =
      1;  ///< where ranks are lost, the run continues with the rest of them
  int restarts = 0;
};

/// Runs until the ranks end in a way that no restart would mend, or all restarts are used up.
/// Returns the exit code of the last attempt. SIGINT, SIGTERM, SIGHUP and SIGUSR1 ask the ranks to
/// save and end; a second one ends them at once. Nothing that was started is left running. Throws
/// ConfigError where the launcher cannot be run. Must be called before the process has a second
/// thread.
int supervise(const Supervision& how);

/// Whether another attempt may end better than one that ended so. `begun`: whether a rank had ever
/// begun to train.
bool is_worth_a_restart(int exit_code, bool begun);

/// The number of workers after `lost` of them were lost.
int workers_left(int workers, int lost, int least);

}  // namespace topknot::cli

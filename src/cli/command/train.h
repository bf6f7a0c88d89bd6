// SPDX-License-Identifier: Apache-2.0
//
// Training of one job by one rank, for the commands that train.
#pragma once

#include <string>

#include "cli/run_folder.h"
#include "job/job.h"
#include "topknot/transport.h"

namespace topknot::cli {

struct TrainRequest {
  train::Job job;
  std::string out;  ///< the run's folder
  FolderUse use = FolderUse::fresh;
  bool trace = false;
  bool analyze = false;
};

/// Whether this command was built with a trainer; throws ConfigError where not.
void require_trainer();

/// One rank's part: progress on the error output, no summary. Returns the exit code that
/// `topknot train` would end with.
int train_quietly(Transport& world, const TrainRequest& request);

}  // namespace topknot::cli

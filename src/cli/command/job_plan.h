// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command/train_options.h"
#include "job/job.h"

namespace topknot::cli {

/// What `train` was asked for: the job from its file or, where a run is resumed, from its folder,
/// then from the environment and from flags.
struct JobPlan {
  train::Job job;
  std::optional<int> workers;        ///< that the command line wants
  std::vector<std::string> notices;  ///< what is not as it was before a resume
};

/// Throws ConfigError, NoCheckpointError.
JobPlan make_plan(const TrainOptions& options);

/// Warns when the machine has few cores for so many workers that are threads. Throws ConfigError
/// where their models do not fit its memory. `bytes` is what one of them takes at least.
void check_room(int workers, std::uint64_t bytes);

}  // namespace topknot::cli

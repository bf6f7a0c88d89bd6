// SPDX-License-Identifier: Apache-2.0
//
// `train` with --restarts or --launcher: this process starts the ranks and does not train.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/command/train_options.h"
#include "job/job.h"

namespace topknot::cli {

/// What was given to `command` and is for the ranks.
std::vector<std::string> words_for_ranks(const CLI::App& command);

/// Returns the exit code. Throws ConfigError.
int train_supervised(const TrainOptions& options, const train::Job& job);

}  // namespace topknot::cli

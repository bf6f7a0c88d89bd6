// SPDX-License-Identifier: Apache-2.0
//
// A run that is continued: its job is in its folder, some of it cannot change, and one that has
// ended is left alone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_json.h"
#include "job/job.h"

namespace topknot::cli {

/// Throws NoCheckpointError where a folder has no run that could be resumed.
void require_run(const std::filesystem::path& run);

/// The job of the run in a folder, with the values it had.
train::Job job_of_run(const std::filesystem::path& run);

/// How `job` differs from that of the run in the folder: a sentence for each key that may change
/// and has. Throws ConfigError, naming the key, where one cannot.
std::vector<std::string> changes_since(const std::filesystem::path& run,
                                       const train::Job& job);

/// The result of the run in the folder, where that has ended and `job` is not longer.
std::optional<Json> finished_result(const std::filesystem::path& run,
                                    const train::Job& job);

}  // namespace topknot::cli

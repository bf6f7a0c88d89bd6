// SPDX-License-Identifier: Apache-2.0
//
// Where the keys of a training job come from: a TOML file, over it the environment, over
// that the command line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"

namespace topknot::cli {

/// The folder that the jobs with names are in: the source tree's, where that still is, else
/// the installed one.
std::filesystem::path jobs_folder();

/// A job that can be called by its name.
struct NamedJob {
  std::string name;
  std::string summary;  ///< the first line of its comment
};

/// The jobs in a folder, by name.
std::vector<NamedJob> list_jobs(const std::filesystem::path& folder);

/// The file that `job` means: a path where it has a slash or ends in .toml, else a name in
/// `folder`. Throws ConfigError, with the nearest name, when there is no such file.
std::filesystem::path find_job(std::string_view job, const std::filesystem::path& folder);

/// Sets the keys that a file gives; without a `name` among them the job is called as the
/// file is. Throws ConfigError that begins with the file and the line.
void read_job(const std::filesystem::path& file, train::Job& job);

/// Sets the keys that the environment gives as TOPKNOT_<KEY>, in capitals. Other variables
/// that begin so are not for jobs, TOPKNOT_DATA among them.
void read_environment(train::Job& job);

/// A sentence for each variable of the environment that begins with TOPKNOT_ and means nothing.
std::vector<std::string> unknown_variables();

/// Sets one key from "key=value".
void apply_setting(train::Job& job, std::string_view setting);

}  // namespace topknot::cli

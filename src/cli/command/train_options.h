// SPDX-License-Identifier: Apache-2.0
//
// What `train` takes on its command line.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch_script.h"
#include "cli/command/job_settings.h"
#include "cli/record_options.h"
#include "cli/run_folder.h"
#include "job/comparison.h"

namespace topknot::cli {

struct TrainOptions {
  std::string job;  // empty: none was named
  JobSettings settings;
  train::Fields same;  // flags that must be the same on all ranks
  std::string out;
  std::string interface;
  RecordFlags record;
  BatchFlags batch;
  std::string words;                   // of the command line, for a script
  std::vector<std::string> for_ranks;  // likewise, for those that a supervisor starts
  std::optional<int> restarts;
  std::optional<int> min_workers;
  std::string launcher;
  bool supervised = false;  // by a process that starts the ranks again
  bool resume = false;
  bool overwrite = false;
  bool json = false;
  bool quiet = false;
  bool dry_run = false;
  bool tensorboard = false;
  bool trace = false;
  bool analyze = false;
  bool list = false;
  bool keys = false;
  bool summary = true;  // at the end

  /// Adds all flags to the command. The object must outlive it.
  void add_to(CLI::App& command);
  /// Throws ConfigError where flags cannot be together.
  void check() const;
  FolderUse use() const;
  /// Whether a process of its own is to start the ranks.
  bool wants_supervisor() const { return restarts || !launcher.empty(); }
};

/// What the ranks must have been given alike, out of all that the command takes.
train::Fields compared_flags(const CLI::App& command);

}  // namespace topknot::cli

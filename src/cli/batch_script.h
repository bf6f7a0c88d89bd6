// SPDX-License-Identifier: Apache-2.0
//
// Scripts for the schedulers of clusters, Slurm and PBS: they start a command as all ranks,
// pass on the signal that asks it to save, and queue the job again until it is done.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"

namespace topknot::cli {

enum class Scheduler { slurm, pbs };

struct BatchScript {
  std::string
      name;  ///< of the job; other characters than letters, digits, . - _ become -
  int ranks = 1;
  std::string data;       ///< the folder of the data set; empty: as the command finds it
  std::string out;        ///< the folder of what is left; empty: runs/NAME
  int restarts = 100;     ///< how often the job may be queued again
  std::string variables;  ///< more that the environment may set, as lines of bash
  /// What is run, in bash. It may call `ranks COMMAND...`, which returns the exit code,
  /// `resume_or_start DIR`, which sets the array `how`, and `finish EXIT-CODE`, and it may use
  /// TOPKNOT, DATA, OUT and the array `data`.
  std::string body;
};

/// A script that trains `job`, which the command line calls `name_or_file`, with `words`, as of
/// given_words(), behind it.
BatchScript training_script(const train::Job& job, const std::string& name_or_file,
                            const std::string& words, const std::string& out,
                            int restarts = BatchScript().restarts);

/// Likewise, one that compares these schemes, which a variable of the script can replace.
BatchScript comparison_script(const train::Job& job, const std::string& name_or_file,
                              const std::vector<std::string>& schemes,
                              const std::string& words, const std::string& out);

/// The text of a script that the scheduler takes as it is.
std::string to_text(const BatchScript& script, Scheduler scheduler);

/// `word` as bash reads it back.
std::string quoted(const std::string& word);

/// What was given to `command`, but for the options named in `without`.
std::vector<std::string> given_list(const CLI::App& command,
                                    std::span<const std::string_view> without);

/// The same as words for bash, each with a space before it.
std::string given_words(const CLI::App& command,
                        std::span<const std::string_view> without);

/// The flags by which a command prints a script instead of running.
struct BatchFlags {
  bool slurm = false;
  bool pbs = false;

  void add_to(CLI::App& command);
  bool any() const noexcept { return slurm || pbs; }
  /// Throws ConfigError where both were given.
  Scheduler scheduler() const;
};

}  // namespace topknot::cli

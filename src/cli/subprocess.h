// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace topknot::cli {

/// This program, by a path that holds wherever it is used.
std::string this_program();

struct SubprocessResult {
  int exit_code = 0;   ///< or 128 + the signal that ended it
  std::string output;  ///< what it wrote to standard output
};

enum class ErrorOutput { ours, discarded };

/// Runs a program with its arguments, without a shell, and waits for it. Throws ConfigError where
/// the program is not installed.
SubprocessResult run_subprocess(const std::vector<std::string>& words,
                                ErrorOutput error_output = ErrorOutput::ours);

/// A program that runs beside this one, with our standard output and error output, and nothing
/// to read. It has a process group of its own, so the signals of a terminal do not reach it, and
/// gets SIGTERM when this process dies. To be made by the main thread.
class Child {
 public:
  /// Throws ConfigError where the program cannot be run.
  explicit Child(const std::vector<std::string>& words);
  /// Kills the group where the program has not ended.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal) const;
  void kill_group() const;
  /// As SubprocessResult::exit_code; none while the program runs.
  std::optional<int> exit_code();

 private:
  pid_t pid_ = 0;
  std::optional<int> exit_code_;
};

}  // namespace topknot::cli

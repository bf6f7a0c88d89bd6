// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace topknot::cli {

struct SubprocessResult {
  int exit_code = 0;   ///< or 128 + the signal that ended it
  std::string output;  ///< what it wrote to standard output
};

enum class ErrorOutput { ours, discarded };

/// Runs a program with its arguments, without a shell, and waits for it. Throws ConfigError where
/// the program is not installed.
SubprocessResult run_subprocess(const std::vector<std::string>& words,
                                ErrorOutput error_output = ErrorOutput::ours);

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace topknot::cli {

struct SubprocessResult {
  int exit_code = 0;   ///< 128 + the signal where one ended it
  std::string output;  ///< what it wrote to standard output
};

/// Runs a program and waits for it. No shell sees the words, so nothing in them has a meaning
/// but to the program. Its errors go to ours. Throws ConfigError when it is not installed.
SubprocessResult run_subprocess(const std::vector<std::string>& words);

}  // namespace topknot::cli

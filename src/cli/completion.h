// SPDX-License-Identifier: Apache-2.0
//
// Completion of the command line, for bash, zsh and fish. The shells' scripts call `topknot
// complete WORDS`, which answers from the parser itself: a new command or option is completed
// without another word.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace topknot::cli {

/// What the last of `words` may become: commands, options, and the values of an option or a
/// positional by the name of its type (SCHEME, JOB, ...). Empty: the shell's own files.
std::vector<std::string> completions(const CLI::App& app,
                                     const std::vector<std::string>& words);

/// completion bash|zsh|fish: prints the script.
void add_completion(CLI::App& app, int& exit_code);

}  // namespace topknot::cli

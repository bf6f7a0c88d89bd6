// SPDX-License-Identifier: Apache-2.0
//
// Errors become one sentence and an exit code here and nowhere else.
#pragma once

#include <exception>
#include <string>

namespace topknot::cli {

/// Prints `sentence` as a warning, one line of standard error.
void warn(const std::string& sentence);

/// Prints `sentence` as one line of standard error and returns `exit_code`.
int complain(const std::string& sentence, int exit_code);

/// Prints the sentence of `error`, behind `who` unless that is empty, and returns its exit
/// code.
int report_error(const std::exception_ptr& error, const std::string& who = {});

/// Whether `error` only says that another rank is lost or has left.
bool blames_a_peer(const std::exception_ptr& error);

}  // namespace topknot::cli

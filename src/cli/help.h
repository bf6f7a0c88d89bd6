// SPDX-License-Identifier: Apache-2.0
//
// The pages that --help prints. Every command's fits a screen of 100 columns and 50 lines and ends
// with two examples; tests/cli/help_test.py holds all of them to it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace topknot::cli {

/// Gives a command two examples to end its help with, each without the word topknot.
void add_examples(CLI::App& command, std::string_view first, std::string_view second);

/// Options of this group are listed by their names alone: for what is seldom needed.
inline constexpr const char* kAlso = "Also";

/// How an option's value is called, without what the parser checks of it: "N", "SCHEME".
std::string value_name(const CLI::Option& option);

/// Gives a command and its subcommands to come this layout.
void lay_out_help(CLI::App& app);

}  // namespace topknot::cli

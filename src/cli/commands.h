// SPDX-License-Identifier: Apache-2.0
//
// One function a subcommand: it adds itself to the parser and runs when the parser finds
// it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace topknot::cli {

/// Set by a subcommand whose checks did not hold.
enum ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,
  kBadUsage = 2,
  kRanksDisagree = 64,
  kBadData = 65,
  kNoCheckpoint = 66,
  kBug = 70,
  kDiskFailed = 74,
  kPeerLost = 75,
  kNotFinite = 76,
  kPreempted = 85,
};

void add_list(CLI::App& app, int& exit_code);
/// Prints what `list KIND` prints.
void list_kind(const std::string& kind);
void add_data(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_advise(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_bench_select(CLI::App& bench, int& exit_code);
void add_bench_step(CLI::App& bench, int& exit_code);
void add_bench_wire(CLI::App& bench, int& exit_code);
void add_bench_allreduce(CLI::App& bench, int& exit_code);
void add_bench_sum(CLI::App& bench, int& exit_code);

}  // namespace topknot::cli

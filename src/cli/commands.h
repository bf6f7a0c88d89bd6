// SPDX-License-Identifier: Apache-2.0
//
// One function a subcommand: it adds itself to the parser and runs when the parser finds
// it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "sim/predict.h"

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

/// The workload of a job's model, by the job's name; without `timed` its compute is 0.
using JobWorkload = std::function<sim::Workload(const std::string& job, bool timed)>;

void add_list(CLI::App& app, int& exit_code);
/// Prints what `list KIND` prints.
void list_kind(const std::string& kind);
void add_data(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_flight(CLI::App& app, int& exit_code);
/// `workload_of`: what --job names, see PredictionOptions.
void add_simulate(CLI::App& app, int& exit_code, const JobWorkload& workload_of);
void add_advise(CLI::App& app, int& exit_code, const JobWorkload& workload_of);
void add_bench(CLI::App& app, int& exit_code);
void add_bench_select(CLI::App& bench, int& exit_code);
void add_bench_step(CLI::App& bench, int& exit_code);
void add_bench_wire(CLI::App& bench, int& exit_code);
void add_bench_allreduce(CLI::App& bench, int& exit_code);
void add_bench_sum(CLI::App& bench, int& exit_code);

}  // namespace topknot::cli

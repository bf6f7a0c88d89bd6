// SPDX-License-Identifier: Apache-2.0
//
// What `simulate` and `advise` are both asked with: a model, a network, schemes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/commands.h"
#include "sim/predict.h"
#include "topknot/budget.h"

namespace topknot::cli {

/// A sweep: every combination of these.
struct Sweep {
  std::vector<int> ranks;
  std::vector<sim::Line> lines;
  std::vector<sim::Candidate> candidates;
  sim::Workload workload;
  sim::Settings settings;
  sim::Calibration calibration;
  sim::Method method = sim::Method::simulated;
};

class PredictionOptions {
 public:
  /// `workload_of` answers for --job.
  void add_to(CLI::App& command, JobWorkload workload_of);

  /// Throws ConfigError, before any work, when a name or a number cannot be. `measured` replaces
  /// the calibration of --calibration.
  Sweep read(const std::optional<sim::Calibration>& measured = std::nullopt) const;

  bool json() const { return json_; }

 private:
  std::vector<std::string> scheme_names() const;
  sim::Workload workload() const;
  std::vector<int> ranks() const;
  std::vector<sim::Line> lines(const sim::Calibration& calibration) const;
  std::vector<sim::Candidate> candidates() const;

  std::vector<int> workers_ = {4};
  std::vector<std::string> bandwidths_;
  std::vector<std::string> networks_;
  std::string latency_;
  std::string overhead_;
  std::string burst_;
  int ranks_per_node_ = 1;
  std::optional<int> cores_;
  std::string personality_ = "mpi";
  std::string params_;
  std::string compute_;
  std::string run_;
  std::string job_;
  JobWorkload workload_of_;
  mutable std::optional<sim::Workload> of_job_;  // is timed once
  std::vector<double> densities_ = {0.01};
  std::vector<std::string> schemes_ = {"all"};
  double budget_ = kDefaultBudget;
  double bucket_mb_ = 25;
  std::string method_ = "auto";
  std::string calibration_;
  std::string coordinates_ = "16M";
  std::uint64_t seed_ = 1;
  bool json_ = false;
};

Json to_json(const sim::Prediction& row);
/// Rows as a table for people.
std::string table(const std::vector<sim::Prediction>& rows);

}  // namespace topknot::cli

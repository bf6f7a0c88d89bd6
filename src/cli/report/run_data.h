// SPDX-License-Identifier: Apache-2.0
//
// A run's folder as the report shows it: curves of a few hundred points, means over its steps,
// and its configuration.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/traffic_matrix.h"
#include "topknot/simulated.h"

namespace topknot::cli {

using Json = nlohmann::ordered_json;

/// How far a run is, since its start.
struct Place {
  double steps = 0;
  double bytes = 0;
  double seconds = 0;
  double network_seconds = 0;  ///< on the network that was asked for, or 0
};

/// Values along a run. One that is not there or not finite is NaN.
struct Curve {
  std::vector<Place> places;
  std::vector<std::pair<std::string, std::vector<double>>>
      values;  ///< by name, at each place
};

/// Means over the steps of rank 0, in seconds. NaN: not recorded.
struct StepTimes {
  double seconds = 0;
  double compute = 0;
  double select = 0;
  double exchange = 0;  ///< of the communication thread, neither selecting nor waiting
  double wait = 0;
  double exposed = 0;
  double data = 0;
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double encode = 0;
  double decode = 0;
};

struct RunData {
  std::filesystem::path folder;
  Json run;  ///< run.json
  bool finished = false;
  std::uint64_t steps = 0;
  std::uint64_t applied = 0;   ///< of them: what was skipped is no saving
  double seconds = 0;          ///< of all steps, without evaluation
  double network_seconds = 0;  ///< the same on the network that was asked for, or 0
  double bytes = 0;            ///< of the busiest rank, in all, settling included
  StepTimes times;
  std::string metric_name;  ///< empty: never evaluated
  std::optional<double> metric;
  std::optional<double> test_loss;
  std::optional<double> train_loss;
  TrafficMatrix traffic;  ///< empty: not recorded
  Curve
      curve;  ///< loss, density, agreed, sent, threshold, residual; at most kPoints of them
  Curve epochs;  ///< metric, test_loss

  /// By the busiest rank, for a step that was applied.
  double bytes_per_step() const;

  /// After how many seconds or bytes of training an evaluation first gave `target` or better.
  struct Reached {
    double seconds;
    double bytes;
  };
  std::optional<Reached> reached(double target) const;
};

/// More than a plot can show.
inline constexpr std::size_t kPoints = 300;

/// Whether small values of this metric are the good ones.
bool lower_is_better(const std::string& metric);

/// Reads a run that has ended or is still under way, as it was or also as it would be on `network`.
/// Throws DataError where there is none or a file is damaged; a last line that is not complete
/// yet is left out.
RunData read_run(const std::filesystem::path& folder, const Network* network = nullptr);

/// A short name for each run: what differs between their jobs, else their folders. All are
/// different.
std::vector<std::string> label_runs(const std::vector<RunData>& runs);
/// The same without the seed: runs with equal names differ in their seeds alone.
std::vector<std::string> label_groups(const std::vector<RunData>& runs);

}  // namespace topknot::cli

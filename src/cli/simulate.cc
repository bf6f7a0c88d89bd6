// SPDX-License-Identifier: Apache-2.0
//
// simulate: what a step would take, for every combination of workers, networks, densities and
// schemes.
#include <fmt/core.h>
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/prediction_options.h"

namespace topknot::cli {
namespace {

struct Options {
  PredictionOptions asked;
  bool csv = false;
};

void print_csv(const std::vector<sim::Prediction>& rows) {
  for (const sim::Prediction& row : rows) {
    const Json json = to_json(row);
    std::vector<std::string> names;
    std::vector<std::string> values;
    for (const auto& [name, value] : json.items()) {
      names.push_back(name);
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
    if (&row == &rows.front()) fmt::print("{}\n", fmt::join(names, ","));
    fmt::print("{}\n", fmt::join(values, ","));
  }
}

void run(const Options& options) {
  const Sweep sweep = options.asked.read();
  sim::Predictor predictor(sweep.workload, sweep.calibration, sweep.settings,
                           sweep.method);
  std::vector<sim::Prediction> rows;
  Progress progress("simulate",
                    sweep.ranks.size() * sweep.lines.size() * sweep.candidates.size());
  for (const int ranks : sweep.ranks)
    for (const sim::Line& line : sweep.lines)
      for (const sim::Candidate& candidate : sweep.candidates) {
        rows.push_back(predictor.predict(candidate, ranks, line));
        progress.step();
      }
  progress.clear();
  if (options.asked.json()) {
    Json results = Json::array();
    for (const sim::Prediction& row : rows) results.push_back(to_json(row));
    fmt::print("{}\n", Json{{"results", results}}.dump(2));
  } else if (options.csv) {
    print_csv(rows);
  } else {
    fmt::print("# topknot {} simulate: {:.4g} parameters, {:.4g} s of compute, {}\n",
               TOPKNOT_VERSION, sweep.workload.params, sweep.workload.compute,
               sim::name(sweep.method));
    fmt::print("{}", table(rows));
  }
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code, const JobWorkload& workload_of) {
  CLI::App* const command = app.add_subcommand(
      "simulate", "What a step would take on another network, by scheme");
  const auto options = std::make_shared<Options>();
  options->asked.add_to(*command, workload_of);
  command->add_flag("--csv", options->csv, "Print comma-separated values");
  add_examples(*command,
               "simulate --params 110M --workers 4,16,64 --bandwidth 1Gbps,10Gbps",
               "simulate --params 14.7M --scheme dense,knot,oktopk --network wan --csv");
  command->callback([options, &exit_code] {
    run(*options);
    exit_code = kDone;
  });
}

}  // namespace topknot::cli

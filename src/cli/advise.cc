// SPDX-License-Identifier: Apache-2.0
//
// advise: which scheme to take for a model on a network, or that dense is best.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/calibration_file.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/prediction_options.h"
#include "sim/advise.h"
#include "sim/measure.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

struct Options {
  PredictionOptions asked;
  bool measure = false;
  std::string save;
  Launch launch;
};

constexpr int kWorkers = 4;  // at work during --measure

/// The coordinates of the vectors that are measured: those of the longest bucket, for a vector that
/// fits into a cache is worked on faster than one that does not; within what takes some seconds.
std::size_t measured_length(const sim::Workload& workload) {
  double longest = 0;
  for (const sim::ReadyBucket& bucket : workload.plan())
    longest = std::max(longest, bucket.coordinates);
  return static_cast<std::size_t>(std::clamp(longest, 0x1p16, 0x1p23));
}

void print(const Options& options, const sim::Advice& advice) {
  if (!options.asked.json()) {
    fmt::print("{}\n{}\n", table(advice.table), advice.reason);
    return;
  }
  Json rows = Json::array();
  for (const sim::Prediction& row : advice.table) rows.push_back(to_json(row));
  const Json json = {{"choice", advice.choice.scheme},
                     {"density", advice.choice.density},
                     {"break_even_gbps", advice.break_even_gbps},
                     {"reason", advice.reason},
                     {"table", rows}};
  fmt::print("{}\n", json.dump(2));
}

/// For many bandwidths: in closed form, and where there is none, for nodes of several ranks, with
/// vectors made short.
sim::Predictor quick(const Sweep& sweep) {
  constexpr double kShort = 1 << 20;
  sim::Settings settings = sweep.settings;
  settings.most_coordinates = std::min(settings.most_coordinates, kShort);
  return {sweep.workload, sweep.calibration, settings,
          sweep.lines[0].network.ranks_per_node > 1 ? sim::Method::simulated
                                                    : sim::Method::closed_form};
}

void decide(const Options& options, const std::optional<sim::Calibration>& measured) {
  const Sweep sweep = options.asked.read(measured);
  if (sweep.ranks.size() != 1 || sweep.lines.size() != 1)
    throw ConfigError(
        "advise is about one number of workers on one network; `topknot simulate` takes "
        "lists.");
  sim::Predictor predictor(sweep.workload, sweep.calibration, sweep.settings,
                           sweep.method);
  sim::Predictor at_any_rate = quick(sweep);
  print(options, sim::advise(predictor, at_any_rate, sweep.candidates, sweep.ranks[0],
                             sweep.lines[0]));
}

int run(const Options& options) {
  if (!options.measure) {
    if (!options.save.empty())
      throw ConfigError("--save keeps what --measure finds; give both.");
    decide(options, std::nullopt);
    return kDone;
  }
  const Sweep sweep = options.asked.read(sim::Calibration{});
  const auto& candidates = sweep.candidates;
  const std::size_t length = measured_length(sweep.workload);
  run_ranks(options.launch, kWorkers, [&](Transport& link) {
    Progress progress(link.rank() == 0 ? "measure" : "", candidates.size());
    const sim::Calibration found =
        sim::measure(link, candidates, length, [&] { progress.step(); });
    if (link.rank() != 0) return;
    progress.clear();
    if (!options.save.empty()) write_calibration(options.save, found);
    decide(options, found);
  });
  return kDone;
}

}  // namespace

void add_advise(CLI::App& app, int& exit_code, const JobWorkload& workload_of) {
  CLI::App* const command = app.add_subcommand(
      "advise", "Which scheme to take for a model on a network, or that dense is best");
  const auto options = std::make_shared<Options>();
  options->asked.add_to(*command, workload_of);
  command->add_flag(
      "--measure", options->measure,
      "Measure this machine first: the work of every scheme with all ranks at "
      "work, and under mpirun the network between them");
  command->add_option("--save", options->save, "Keep what --measure finds in this file");
  command
      ->add_option(
          "--measure-workers", options->launch.workers,
          "Ranks at work during --measure, as threads; under mpirun its own number "
          "(default 4)")
      ->check(CLI::PositiveNumber);
  add_examples(*command, "advise --job vgg16-cifar10 --workers 16 --network 1gbe",
               "advise --measure --save machine.json --params 14.7M");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace topknot::cli

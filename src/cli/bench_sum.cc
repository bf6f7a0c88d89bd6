// SPDX-License-Identifier: Apache-2.0
//
// bench sum: what the schemes make of the same gradients. On every step the agreed sum is compared with
// the true top-k of all that the ranks had (Ok-Topk's xi), and rows that no step of a window
// touched are counted (the reason for ADTopk). By the law all that the ranks had is what they agreed
// on and what is left in their residuals, so nothing has to be watched within the exchange.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/gradients.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/sum_quality.h"
#include "engine/bucket.h"
#include "engine/recipe.h"
#include "topknot/error.h"
#include "transports/control_channel.h"

namespace topknot::cli {
namespace {

struct Options {
  Problem problem;
  Gradients gradients;
  std::vector<std::string> schemes{"topka", "oktopk", "knot", "adtopk"};
  int workers = 4;
  int steps = 64;
  int window = 32;
  double correlation = 0.5;
};

struct Quality {
  std::string scheme;
  double mean_distance = 0;
  double largest_distance = 0;
  double agreed = 0;  // mean number of coordinates in the sum
  std::vector<TouchedRows::Share> untouched;
};

/// The mean over ranks of residual + gradient, out of what is left of it. All ranks are threads, and
/// stay where they are until rank 0 has looked at their residuals.
std::vector<float> all_of(std::span<const float> agreed,
                          const std::vector<std::span<const float>>& residuals) {
  std::vector<float> all(agreed.begin(), agreed.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    double left = 0;
    for (const auto residual : residuals)
      if (!residual.empty()) left += residual[i];
    all[i] = static_cast<float>(all[i] + left / static_cast<double>(residuals.size()));
  }
  return all;
}

class Rank {
 public:
  Rank(Transport& link, const Options& options, const std::string& scheme,
       std::vector<std::span<const float>>& residuals)
      : options_(options),
        layout_(options.gradients.layout_or(bench_layout(options.problem.n))),
        bucket_(layout_, engine::Recipe::of(scheme), link, 1),
        control_(link, 2),
        gradients_(options.gradients.of_rank(link.rank(), options.problem.n,
                                             options.correlation)),
        residuals_(residuals),
        rows_(layout_) {
    quality_.scheme = scheme;
  }

  Quality run(int rank) {
    std::vector<float> mean(options_.problem.n);
    for (int step = 0; step < options_.steps; ++step) {
      std::vector<float> gradient =
          gradients_[static_cast<std::size_t>(step) % gradients_.size()];
      const StepTrace trace =
          bucket_.step(gradient, options_.problem.k(), mean, 1, options_.problem.density);
      residuals_[static_cast<std::size_t>(rank)] = bucket_.residual();
      wait_for_all();
      if (rank == 0) look(mean, trace, step);
      wait_for_all();
    }
    quality_.mean_distance /= options_.steps;
    quality_.agreed /= options_.steps;
    quality_.untouched = rows_.untouched();
    return quality_;
  }

 private:
  void wait_for_all() { control_.gather(std::vector<std::uint8_t>{1}); }

  void look(std::span<const float> mean, const StepTrace& trace, int step) {
    const double distance = distance_from_topk(mean, all_of(mean, residuals_));
    quality_.mean_distance += distance;
    quality_.largest_distance = std::max(quality_.largest_distance, distance);
    quality_.agreed += static_cast<double>(trace.count);
    rows_.add(mean);
    if ((step + 1) % options_.window == 0) rows_.end_window();
  }

  const Options& options_;
  const Layout layout_;
  engine::Bucket bucket_;
  ControlChannel control_;
  const std::vector<std::vector<float>> gradients_;
  std::vector<std::span<const float>>& residuals_;
  TouchedRows rows_;
  Quality quality_;
};

Quality measure(const Options& options, const std::string& scheme) {
  Quality quality;
  std::vector<std::span<const float>> residuals(
      static_cast<std::size_t>(options.workers));
  Launch launch;
  launch.workers = options.workers;
  run_ranks(launch, options.workers, [&](Transport& link) {
    Quality mine = Rank(link, options, scheme, residuals).run(link.rank());
    if (link.rank() == 0) quality = std::move(mine);
  });
  return quality;
}

double untouched_rows(const Quality& quality) {
  double rows = 0;
  double untouched = 0;
  for (const auto& tensor : quality.untouched) {
    rows += static_cast<double>(tensor.rows);
    untouched += static_cast<double>(tensor.rows) * tensor.untouched;
  }
  return rows > 0 ? untouched / rows : 0;
}

Json to_json(const Options& options, const std::vector<Quality>& all) {
  Json results = Json::array();
  for (const Quality& one : all) {
    Json tensors = Json::array();
    for (const auto& tensor : one.untouched)
      tensors.push_back({{"tensor", tensor.tensor},
                         {"rows", tensor.rows},
                         {"untouched", tensor.untouched}});
    results.push_back({{"scheme", one.scheme},
                       {"mean_distance", one.mean_distance},
                       {"largest_distance", one.largest_distance},
                       {"agreed", one.agreed},
                       {"untouched_rows", untouched_rows(one)},
                       {"tensors", std::move(tensors)}});
  }
  return {{"n", options.problem.n},       {"density", options.problem.density},
          {"workers", options.workers},   {"steps", options.steps},
          {"window", options.window},     {"gradients", options.gradients.about()},
          {"results", std::move(results)}};
}

void print(const Options& options, const std::vector<Quality>& all) {
  if (options.gradients.recorded()) fmt::print("# {}\n", options.gradients.summary());
  fmt::print("# {} ranks, n {}, k {}, {} steps; rows over windows of {}\n",
             options.workers, options.problem.n, options.problem.k(), options.steps,
             options.window);
  fmt::print("# {:<20}{:>14}{:>14}{:>14}{:>18}\n", "scheme", "distance", "largest",
             "agreed", "rows untouched");
  for (const Quality& one : all)
    fmt::print("  {:<20}{:>14.4f}{:>14.4f}{:>14.0f}{:>16.2f} %\n", one.scheme,
               one.mean_distance, one.largest_distance, one.agreed,
               100 * untouched_rows(one));
}

void run(Options& options) {
  if (under_launcher())
    throw ConfigError(
        "bench sum compares the ranks' memories, so its ranks are threads: run "
        "it without mpirun, with --workers.");
  options.gradients.open(options.problem);
  options.problem.check();
  options.window = std::min(options.window, options.steps);
  for (const std::string& scheme : options.schemes) find_scheme(scheme);
  std::vector<Quality> all;
  for (const std::string& scheme : options.schemes)
    all.push_back(measure(options, scheme));
  options.problem.json ? fmt::print("{}\n", to_json(options, all).dump(2))
                       : print(options, all);
}

}  // namespace

void add_bench_sum(CLI::App& bench, int&) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "sum",
      "How far each scheme's sum is from the true top-k, and what it never touches");
  options->problem.add_to(*command, 1 << 20);
  command->add_option("--scheme", options->schemes, "Schemes, as topka,oktopk,knot")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--workers", options->workers, "Ranks, as threads")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_option("--steps", options->steps, "Steps to take")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option("--window", options->window, "Steps in which a row should be touched")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option("--correlation", options->correlation,
                   "Share of the gradient that is common to all ranks")
      ->capture_default_str();
  options->gradients.add_to(*command);
  add_examples(*command, "bench sum --scheme topka,oktopk,knot --n 64k",
               "bench sum --gradients g.safetensors --json");
  command->callback([options] { run(*options); });
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/report/network_time.h"

#include <fmt/core.h>

#include <algorithm>

#include "sim/exchange.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

/// Densities that follow a gradient differ a little on every step; two digits are enough.
double rounded(double density) {
  return std::stod(fmt::format("{:.1e}", std::min(density, 1.0)));
}

engine::Recipe recipe_of(const Json& job) {
  EngineOptions options;
  options.scheme = job.value("scheme", "");
  options.memory = job.value("memory", "");
  options.compressor = job.value("compressor", "");
  options.collective = job.value("collective", "");
  return engine::Recipe::of(options);
}

}  // namespace

NetworkTime::NetworkTime(const Json& run, const Network& network) : network_(network) {
  const Json job = run.value("job_as_run", run.value("job", Json::object()));
  for (const Json& bucket : run.value("buckets", Json::array()))
    buckets_.push_back(bucket.value("coordinates", 0.0));
  ranks_ = run.value("workers", 0);
  if (buckets_.empty() || ranks_ < 1)
    throw DataError(
        "run.json names no buckets or no workers, so the run cannot be shown on "
        "another network.");
  recipe_ = recipe_of(job);
  whole_last_ = buckets_.size() > 1 && job.value("dense_vectors", true) &&
                recipe_.collective.name != "dense";
}

double NetworkTime::on_the_way(double density) {
  const auto [place, is_new] = known_.try_emplace(density, 0.0);
  if (!is_new) return place->second;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const bool whole = whole_last_ && i + 1 == buckets_.size();
    sim::Exchange exchange;
    exchange.recipe = whole ? recipe_.whole() : recipe_;
    exchange.ranks = ranks_;
    exchange.coordinates = buckets_[i];
    exchange.density = whole ? 1 : density;
    exchange.network = network_;  // the ranks' own work takes no time, it is in the run's
    if (buckets_[i] > 0)
      place->second += sim::simulate(exchange, sim::Settings{}).seconds;
  }
  return place->second;
}

double NetworkTime::seconds(const MeasuredStep& step) {
  if (step.density <= 0 || ranks_ == 1) return step.seconds;
  const double hidden = std::max(step.busy - step.exposed, 0.0);
  const double own = step.busy - step.wait;
  const double exchange = own + on_the_way(rounded(step.density));
  return step.seconds - step.exposed + std::max(exchange - hidden, 0.0);
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "sim/predict.h"

#include <algorithm>
#include <cmath>

#include "topknot/budget.h"
#include "topknot/error.h"

namespace topknot::sim {
namespace {

constexpr int kMostSimulatedRanks = 64;
constexpr double kForward = 1.0 / 3;  // of the compute

}  // namespace

double ready_at(double compute, double share) {
  return compute * (kForward + (1 - kForward) * share);
}

Candidate Candidate::of(const std::string& scheme, double density) {
  Candidate made{
      .scheme = scheme, .recipe = engine::Recipe::of(scheme), .density = density};
  if (made.is_dense()) made.density = 1;
  return made;
}

Candidate Candidate::rounds(double budget) {
  const Split how = split({.budget = budget});
  Candidate made{.scheme = kRounds,
                 .recipe = engine::Recipe::of("knot"),
                 .density = how.density,
                 .every = how.local_steps};
  made.recipe.collective = with_values(made.recipe.collective, how.values);
  return made;
}

std::vector<ReadyBucket> Workload::plan() const {
  if (!buckets.empty()) return buckets;
  const double count =
      bucket_bytes > 0 ? std::max(std::ceil(4 * params / bucket_bytes), 1.0) : 1;
  std::vector<ReadyBucket> plan;
  for (double i = 1; i <= count; ++i)
    plan.push_back({params / count, ready_at(compute, i / count)});
  return plan;
}

std::string name(Method method) {
  return method == Method::simulated ? "simulated" : "closed-form";
}

ExchangeTime Predictor::exchange(const Candidate& candidate, int ranks, const Line& line,
                                 double coordinates, Method method) {
  const Key key{candidate.scheme,  ranks,       line.gbps,
                candidate.density, coordinates, method};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const Exchange exchange{.recipe = candidate.recipe,
                          .ranks = ranks,
                          .coordinates = coordinates,
                          .density = candidate.density,
                          .network = line.network,
                          .cores = line.cores,
                          .rates = calibration_.rates(candidate.scheme),
                          .personality = line.personality};
  ExchangeTime time;
  if (ranks == 1) {
    time.seconds = coordinates * exchange.rates.per_coordinate;
  } else if (method == Method::simulated) {
    time = simulate(exchange, settings_);
  } else {
    const auto known = closed_form(exchange);
    if (!known)
      throw ConfigError("The collective " + candidate.recipe.collective.name +
                        " has no closed form; take --method simulated.");
    time = *known;
  }
  known_.emplace(key, time);
  return time;
}

Prediction Predictor::step(const Candidate& candidate, int ranks, const Line& line,
                           Method method) {
  Prediction made{.scheme = candidate.scheme,
                  .ranks = ranks,
                  .gbps = line.gbps,
                  .density = candidate.density,
                  .method = method_};
  const auto every = static_cast<double>(candidate.every);
  double end = candidate.every > 1 ? workload_.compute : 0;
  for (const ReadyBucket& bucket : workload_.plan()) {
    const ExchangeTime time =
        exchange(candidate, ranks, line, bucket.coordinates, method);
    end = std::max(end, candidate.every > 1 ? 0 : bucket.ready) + time.seconds / every;
    made.exchange_seconds += time.seconds / every;
    made.bytes += time.bytes / every;
    made.messages += time.messages / every;
  }
  made.step_seconds = std::max(end, workload_.compute);
  made.exposed_seconds = made.step_seconds - workload_.compute;
  made.efficiency = made.step_seconds > 0 ? workload_.compute / made.step_seconds : 1;
  return made;
}

Prediction Predictor::predict(const Candidate& candidate, int ranks, const Line& line) {
  Prediction made = step(candidate, ranks, line, method_);
  // A dense sum has 2 (P - 1) messages a rank, and its closed form is exact: among many ranks it would
  // take longer to simulate than all else.
  const bool many = ranks > kMostSimulatedRanks && line.network.ranks_per_node == 1;
  const Method of_dense = many ? Method::closed_form : method_;
  const auto speedup_over = [&](const char* scheme) {
    if (candidate.scheme == scheme) return 1.0;
    const double theirs =
        step(Candidate::of(scheme, 1), ranks, line, of_dense).step_seconds;
    return made.step_seconds > 0 ? theirs / made.step_seconds : 1;
  };
  made.speedup_vs_dense = speedup_over("dense");
  made.speedup_vs_dense_bf16 = speedup_over("dense-bf16");
  return made;
}

Method method_for(std::span<const int> ranks) {
  return std::ranges::all_of(ranks, [](int p) { return p <= kMostSimulatedRanks; })
             ? Method::simulated
             : Method::closed_form;
}

}  // namespace topknot::sim

// SPDX-License-Identifier: Apache-2.0
#include "job/engine_options.h"

#include <algorithm>
#include <charconv>

#include "engine/bucket.h"
#include "engine/recipe.h"
#include "topknot/budget.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::train {

Spec memory_of(const Job& job) { return engine::Recipe::of(job).memory; }

namespace {

std::string_view exchange_of(const Job& job) {
  if (job.exchange != "auto") return job.exchange;
  if (!job.outer.empty()) return "gradients";
  if (job.memory.empty()) return find_scheme(job.scheme).exchange;
  const auto memory = make_memory(memory_of(job), Layout::flat(1));
  return memory->units() == Units::updates ? "updates" : "gradients";
}

// The memory with the arithmetic of this optimizer, which takes the same parameters.
std::string memory_that_steps(const Spec& optimizer) {
  const std::string own = optimizer.params.str();
  if (optimizer.name == "adam" || optimizer.name == "adamw")
    return "adam" + (own.empty() ? "" : ":" + own);
  if (optimizer.name != "sgd")
    throw ConfigError("No memory takes the steps of the optimizer " + optimizer.name +
                      ": exchange=gradients leaves it behind the exchange.");
  Params params = optimizer.params;
  const double momentum = params.number("momentum", 0, 0, 1, "");
  return momentum == 0 ? "momentum:momentum=0" : "momentum:" + own;
}

// The memory of an exchange of updates, for a job that names none.
std::string memory_of_updates(const Job& job) {
  const Spec of_scheme = memory_of(job);
  const std::string given = of_scheme.params.str();
  if (job.local_steps > 1)
    return of_scheme.name == "residual" ? of_scheme.str() : "residual";
  if (!given.empty())
    throw ConfigError("The optimizer's own memory takes the place of " + of_scheme.str() +
                      " where updates are exchanged on every step: leave " + given +
                      " out, or set exchange=gradients.");
  return memory_that_steps(Spec::parse(job.optimizer));
}

// Returns whether the job's collective has these values now.
bool give_values(Job& job, std::string_view values) {
  const Spec collective = with_values(engine::Recipe::of(job).collective, values);
  job.collective = collective.str();
  const std::string* const given = collective.params.given("values");
  return given != nullptr && *given == values;
}

void move_momentum(Job& job, std::vector<std::string>& notices) {
  const Spec memory = memory_of(job);
  std::string& behind = job.local_steps > 1 ? job.outer : job.optimizer;
  Spec optimizer = Spec::parse(behind);
  if (memory.name != "dgc" || optimizer.name != "sgd") return;
  const double momentum = optimizer.params.number("momentum", 0, 0, 1, "");
  if (momentum == 0 || optimizer.params.given("momentum_of") != nullptr) return;
  const std::string moved = optimizer.params.str();
  // The memory does not see the weight decay, so the optimizer keeps momentum for it.
  const bool decays = job.weight_decay > 0 && job.local_steps == 1;
  behind = decays ? "sgd:" + moved + ",momentum_of=decay" : "sgd";
  if (!memory.params.str().empty()) {
    notices.emplace_back(
        "the memory dgc has the momentum, so the optimizer goes without.");
    return;
  }
  job.memory = "dgc:" + moved;  // it takes the same parameters
  notices.push_back(moved + " is moved from the optimizer to the memory dgc.");
}

}  // namespace

void spend(Job& job, std::vector<std::string>& notices) {
  job.exchange = exchange_of(job);
  if (job.budget != 0 && job.exchange != "updates")
    throw ConfigError(
        "A budget is for an exchange of updates: set density and local_steps, or "
        "exchange=updates.");
  Spending set{job.budget, job.density, static_cast<std::uint64_t>(job.local_steps)};
  const bool by_default = set.budget == 0 && set.density == 0 && set.local_steps == 0;
  const bool ours = find_scheme(job.scheme).exchange == "updates" && job.memory.empty();
  // Gradients, other schemes, and memories that step on every gradient are as published.
  const bool as_published = job.exchange != "updates" || (by_default && !ours);
  if (as_published && set.density == 0) set.density = EngineOptions{}.density;
  const Split made = split(set);
  job.density = made.density;
  job.local_steps = static_cast<std::int64_t>(made.local_steps);
  if (made.values == "f32") return;
  const bool given = give_values(job, made.values);
  if (!given && job.budget != 0)
    throw ConfigError(
        "The collective " + engine::Recipe::of(job).collective.str() +
        " does not send values of " + std::string(made.values) +
        ", by which a budget is kept: set density and local_steps instead.");
  if (by_default && given)
    notices.emplace_back(
        "budget 1/64 of dense's bytes: a quarter of the changes in 2 bits each; another "
        "budget, or a density for every step, says otherwise.");
}

void place_optimizer(Job& job, std::vector<std::string>& notices) {
  const bool rounds = job.local_steps > 1;
  if (job.exchange != "updates") {
    if (job.outer.empty()) job.outer = "sgd:momentum=0.9,nesterov=1";
    return move_momentum(job, notices);
  }
  if (!job.outer.empty())
    throw ConfigError(
        "With exchange=updates the mean change moves the weights as it is: leave outer "
        "out, or set exchange=gradients.");
  job.outer = "sgd";
  job.outer_lr = 1;
  const std::string optimizer = Spec::parse(job.optimizer).name;
  if (job.memory.empty()) job.memory = memory_of_updates(job);
  notices.push_back(
      rounds
          ? "each worker takes " + std::to_string(job.local_steps) + " steps of " +
                optimizer + " alone, and then the workers exchange the changes."
          : "each worker takes its own step of " + optimizer +
                ", and the workers exchange updates; exchange=gradients does without.");
}

Settling Settling::parse(const std::string& text) {
  if (text == "never") return {};
  if (text == "end") return {.at_end = true};
  std::uint64_t every = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), every);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || every == 0)
    throw ConfigError("The key settle cannot be " + (text.empty() ? "empty" : text) +
                      "; it is end, never, or a number of steps from 1.");
  return {.at_end = true, .every = every};
}

void take_schedule(Job& job, std::vector<std::string>& notices) {
  if (!job.schedule.empty()) return;
  job.schedule = find_scheme(job.scheme).schedule;
  if (job.schedule == "constant") return;
  notices.push_back("the scheme " + job.scheme + " warms up by " + job.schedule +
                    "; density_schedule=constant goes without.");
}

bool clips_before(const Job& job) {
  const Spec memory = memory_of(job);
  return job.clip > 0 && job.local_steps == 1 && engine::clips(memory) &&
         memory.params.given("clip") == nullptr;
}

Job prepared(Job job, std::vector<std::string>& notices) {
  spend(job, notices);
  place_optimizer(job, notices);
  take_schedule(job, notices);
  if (clips_before(job))
    notices.emplace_back("each worker clips its own gradient, at clip / sqrt(workers).");
  return job;
}

Pace Pace::of(const Job& job, std::uint64_t steps_per_epoch) {
  const auto rounds = [&](std::uint64_t steps) {
    const auto local = static_cast<std::uint64_t>(job.local_steps);
    return (steps + local - 1) / local;
  };
  Pace pace;
  pace.per_epoch = rounds(steps_per_epoch);
  pace.in_all = pace.per_epoch * static_cast<std::uint64_t>(job.epochs);
  if (job.steps > 0)
    pace.in_all = std::min(pace.in_all, rounds(static_cast<std::uint64_t>(job.steps)));
  return pace;
}

namespace {

// The interval of ADTopk's monitor for each model, from its published code.
std::string_view monitor_interval(const std::string& model) {
  if (model == "vgg16") return "10";
  if (model == "lstm" || model == "acoustic" || model == "bert") return "20";
  return "5";
}

// The job's compressor; where it depends on the length of the run, with that filled in.
std::string compressor_for(const Job& job, const Pace& pace) {
  Spec compressor = engine::Recipe::of(job).compressor;
  if (compressor.name != "adtopk_threshold") return job.compressor;
  constexpr std::uint64_t kMost = 1'000'000'000;
  compressor.params.give("tau", monitor_interval(Spec::parse(job.model).name));
  compressor.params.give("steps", std::to_string(std::min(pace.in_all, kMost)));
  return compressor.str();
}

}  // namespace

EngineOptions engine_options(const Job& job, int channel, const Pace& pace) {
  EngineOptions options = job;
  options.compressor = compressor_for(job, pace);
  options.steps_per_epoch = pace.per_epoch;
  options.clip = clips_before(job) ? job.clip : 0;
  options.bucket_bytes = static_cast<std::uint64_t>(job.bucket_mb * (1 << 20));
  options.channel = channel;
  return options;
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "topknot/schedule.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/names.h"
#include "topknot/error.h"

namespace topknot {
namespace {

constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

class Constant final : public Schedule {
 public:
  explicit Constant(double target) : target_(target) {}
  double density(std::uint64_t) const override { return target_; }

 private:
  const double target_;
};

/// The parameter `name`, a number of steps; with the parameter epochs, where the steps of
/// an epoch are known, as many as those have, but at least one.
std::uint64_t steps_of(Params& params, std::string_view name, std::int64_t fallback,
                       std::int64_t fewest, std::string_view meaning,
                       std::uint64_t steps_per_epoch) {
  const auto steps = static_cast<std::uint64_t>(
      params.integer(name, fallback, fewest, kMostSteps, meaning));
  const double epochs = params.number("epochs", 0, 0, 1e6,
                                      "the same in epochs, where their steps are known");
  if (epochs == 0 || steps_per_epoch == 0) return steps;
  const double counted = epochs * static_cast<double>(steps_per_epoch);
  return static_cast<std::uint64_t>(
      std::clamp(std::round(counted), 1.0, static_cast<double>(kMostSteps)));
}

class DenseFirst final : public Schedule {
 public:
  DenseFirst(double target, Params& params, std::uint64_t steps_per_epoch)
      : target_(target),
        steps_(steps_of(params, "steps", 512, 0, "steps that send everything",
                        steps_per_epoch)) {}
  double density(std::uint64_t step) const override {
    return step < steps_ ? 1 : target_;
  }

 private:
  const double target_;
  const std::uint64_t steps_;
};

class Exponential final : public Schedule {
 public:
  Exponential(double target, Params& params, std::uint64_t steps_per_epoch)
      : target_(target),
        from_(params.number("from", 0.25, 1e-9, 1, "density of the first stage")),
        stages_(static_cast<std::uint64_t>(
            params.integer("stages", 4, 1, 1000, "stages before the target is reached"))),
        period_(steps_of(params, "period", 100, 1, "steps of a stage", steps_per_epoch)) {
  }

  double density(std::uint64_t step) const override {
    const std::uint64_t stage = step / period_;
    if (stage >= stages_ || from_ <= target_) return target_;
    const double share = static_cast<double>(stage) / static_cast<double>(stages_);
    return from_ * std::pow(target_ / from_, share);
  }

 private:
  const double target_;
  const double from_;
  const std::uint64_t stages_;
  const std::uint64_t period_;
};

constexpr ScheduleEntry kSchedules[] = {
    {"constant", "the density asked for, from the first step on"},
    {"dense", "everything for some steps, then the density asked for"},
    {"exponential", "in stages of equal ratios down to the density asked for"},
};

std::unique_ptr<Schedule> make(std::string_view name, Params& params, double target,
                               std::uint64_t steps_per_epoch) {
  if (name == "constant") return std::make_unique<Constant>(target);
  if (name == "dense")
    return std::make_unique<DenseFirst>(target, params, steps_per_epoch);
  if (name == "exponential")
    return std::make_unique<Exponential>(target, params, steps_per_epoch);
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : kSchedules) names.emplace_back(entry.name);
  throw ConfigError("There is no schedule named " + std::string(name) +
                    core::suggestion(name, names) + ".");
}

}  // namespace

std::span<const ScheduleEntry> schedules() { return kSchedules; }

std::vector<Params::Declaration> schedule_parameters(std::string_view name) {
  Params params;
  make(name, params, 1, 0);
  return params.declared();
}

std::unique_ptr<Schedule> make_schedule(const Spec& spec, double target,
                                        std::uint64_t steps_per_epoch) {
  if (!(target > 0 && target <= 1))
    throw ConfigError("A density of " + std::to_string(target) +
                      " is not in (0, 1]; 0.01 sends one coordinate in a hundred.");
  Params params = spec.params;
  auto made = make(spec.name, params, target, steps_per_epoch);
  params.refuse_unknown("The schedule " + spec.name);
  return made;
}

}  // namespace topknot

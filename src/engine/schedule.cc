// SPDX-License-Identifier: Apache-2.0
#include "topknot/schedule.h"

#include <cmath>
#include <string>

#include "topknot/error.h"

namespace topknot {
namespace {

class Constant final : public Schedule {
 public:
  explicit Constant(double target) : target_(target) {}
  double density(std::uint64_t) const override { return target_; }

 private:
  const double target_;
};

class DenseFirst final : public Schedule {
 public:
  DenseFirst(double target, Params& params)
      : target_(target),
        steps_(static_cast<std::uint64_t>(
            params.integer("steps", 512, 0, 1LL << 40, "steps that send everything"))) {}
  double density(std::uint64_t step) const override {
    return step < steps_ ? 1 : target_;
  }

 private:
  const double target_;
  const std::uint64_t steps_;
};

class Exponential final : public Schedule {
 public:
  Exponential(double target, Params& params)
      : target_(target),
        from_(params.number("from", 0.25, 1e-9, 1, "density of the first stage")),
        stages_(static_cast<std::uint64_t>(
            params.integer("stages", 4, 1, 1000, "stages before the target is reached"))),
        period_(static_cast<std::uint64_t>(
            params.integer("period", 100, 1, 1LL << 40, "steps of a stage"))) {}

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

}  // namespace

std::unique_ptr<Schedule> make_schedule(const Spec& spec, double target) {
  if (!(target > 0 && target <= 1))
    throw ConfigError("A density of " + std::to_string(target) +
                      " is not in (0, 1]; 0.01 sends one coordinate in a hundred.");
  Params params = spec.params;
  std::unique_ptr<Schedule> made;
  if (spec.name == "constant") made = std::make_unique<Constant>(target);
  if (spec.name == "dense") made = std::make_unique<DenseFirst>(target, params);
  if (spec.name == "exponential") made = std::make_unique<Exponential>(target, params);
  if (!made)
    throw ConfigError("There is no schedule named " + spec.name + "; nearest is " +
                      nearest(spec.name, {"constant", "dense", "exponential"}) + ".");
  params.refuse_unknown("The schedule " + spec.name);
  return made;
}

}  // namespace topknot

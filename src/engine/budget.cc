// SPDX-License-Identifier: Apache-2.0
//
// Why a quarter of the coordinates in 2 bits. An exchange should leave little behind: what
// stays in the residuals is late, and lateness is what costs accuracy. Of a normal residual
// the largest 1 % in f32 hold 8 % of the energy, for 0.40 bits a coordinate and phase. The
// largest quarter in 2 bits holds about 70 %, for 1.3 bits. Four steps between exchanges
// make that 0.33 bits a step, and a few local steps train as well as an exchange on every
// step.

#include "topknot/budget.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/text.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot {
namespace {

constexpr double kQuarter = 0.25;
// The bytes of one exchange of a quarter of the coordinates, as a share of a dense one's in
// f32, rounded up from the most that was measured: with biases and norms, which are sent
// whole, and with the mean of Adam's squares now and then.
constexpr double kTwoBits = 1.0 / 16;
constexpr double kEightBits = 1.0 / 8;

Split split_of(double budget) {
  if (budget >= kEightBits) return {1, kQuarter, "i8"};
  const double steps = std::ceil(kTwoBits / budget);
  return {static_cast<std::uint64_t>(std::max(1.0, steps)), kQuarter, "i2"};
}

void check(const Spending& set) {
  constexpr double kLeast = 1e-9;
  if (set.budget != 0 && !(set.budget >= kLeast && set.budget <= 1))
    throw ConfigError("A budget of " + core::shortest(set.budget) +
                      " is no share of a dense exchange's bytes: it is above 0 and at "
                      "most 1, as 0.02.");
  if (set.density != 0 && !(set.density > 0 && set.density <= 1))
    throw ConfigError("A density of " + core::shortest(set.density) +
                      " is no share of the coordinates: it is above 0 and at most 1.");
  if (set.budget != 0 && (set.density != 0 || set.local_steps != 0))
    throw ConfigError("A budget decides " +
                      std::string(set.density != 0 ? "the density" : "the local steps") +
                      ": set one or the other.");
}

}  // namespace

Split split(const Spending& set) {
  check(set);
  if (set.budget != 0) return split_of(set.budget);
  if (set.density == 0 && set.local_steps == 0) return split_of(kDefaultBudget);
  if (set.density == 0) return {set.local_steps, kQuarter, "i2"};
  return {set.local_steps == 0 ? 1 : set.local_steps, set.density, "f32"};
}

Spec with_values(Spec collective, std::string_view values) {
  if (collective.name == "dense" || collective.name == "hierarchical") return collective;
  for (const Params::Declaration& one : collective_parameters(collective.name))
    if (one.name == "values") collective.params.give("values", values);
  return collective;
}

}  // namespace topknot

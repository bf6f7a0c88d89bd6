// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "topknot/params.h"

namespace topknot {

/// How many of `n` coordinates a density in (0, 1] asks for: n * density rounded down, but at
/// least one of a vector that is not empty. The product is nudged by 1e-9 first, so that 0.29
/// of 100 is 29 and not 28.
constexpr std::uint64_t coordinates_for(std::uint64_t n, double density) {
  if (n == 0) return 0;
  const auto k = static_cast<std::uint64_t>(static_cast<double>(n) * density + 1e-9);
  return k == 0 ? 1 : (k < n ? k : n);
}

/// The density over time. A pure function of the step, so there is nothing to save.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// What to send on `step`, counted from 0; 1 is everything.
  virtual double density(std::uint64_t step) const = 0;
};

/// The schedules by name, and what each does in a line.
struct ScheduleEntry {
  std::string_view name;
  std::string_view summary;
};
std::span<const ScheduleEntry> schedules();
std::vector<Params::Declaration> schedule_parameters(std::string_view name);

/// A schedule by name that ends at `target`, in (0, 1]:
///
///   constant                      the target from the first step on
///   dense:steps=512               everything for so many steps, as Ok-Topk's code warms up
///   exponential:stages=4,period=100,from=0.25
///                                 from `from` down to the target in equal ratios, `stages`
///                                 stages of `period` steps each, as DGC warms up
///
/// Both also take epochs=E, what a paper counts in: where `steps_per_epoch` is known, not 0,
/// the dense start, or each stage, takes E epochs instead of `steps` or `period` steps.
///
/// Throws ConfigError for anything else.
std::unique_ptr<Schedule> make_schedule(const Spec& spec, double target,
                                        std::uint64_t steps_per_epoch = 0);

}  // namespace topknot

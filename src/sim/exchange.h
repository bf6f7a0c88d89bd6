// SPDX-License-Identifier: Apache-2.0
//
// The time of one exchange of one bucket: by running it on the virtual clock, or in closed form.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/recipe.h"
#include "sim/personality.h"
#include "sim/rates.h"
#include "topknot/simulated.h"

namespace topknot::sim {

struct Exchange {
  engine::Recipe recipe;
  int ranks = 1;
  double coordinates = 0;
  double density = 1;
  Network network;
  Cores cores;
  Rates rates;
  Personality personality;

  double k() const;
};

struct ExchangeTime {
  double seconds = 0;   ///< from one exchange to the next, on the slowest rank
  double bytes = 0;     ///< that the busiest rank sends
  double messages = 0;  ///< that the busiest rank sends
};

struct Settings {
  /// Coordinates of all ranks together. A bucket with more is made shorter, and bandwidth
  /// and rates are scaled with it; what does not depend on its length, latency and agreements
  /// among it, is not.
  double most_coordinates = 1 << 24;
  int warm_up = 2;  ///< steps; 1, and 1 that counts, for more than 2^28 coordinates
  int steps = 3;    ///< whose mean counts
  std::uint64_t seed = 1;
  /// Share of the gradient that is common to all ranks.
  double correlation = 0.5;
};

/// Runs the collective itself, with the rank's work charged by its rates.
ExchangeTime simulate(const Exchange& exchange, const Settings& settings);

/// By Collective::cost(). Nothing where the collective knows no closed form. Ranks that share cores
/// are taken to work all at once. Throws ConfigError for nodes of several ranks, whose ports it does
/// not know to be shared.
std::optional<ExchangeTime> closed_form(const Exchange& exchange);

}  // namespace topknot::sim

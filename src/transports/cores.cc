// SPDX-License-Identifier: Apache-2.0
#include "transports/cores.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "topknot/error.h"

namespace topknot::transports {

CoreQueue::CoreQueue(const Cores& cores) : slice_(cores.slice) {
  if (cores.count < 0)
    throw ConfigError("Ranks cannot share " + std::to_string(cores.count) + " cores.");
  if (!(cores.slice > 0 && std::isfinite(cores.slice)))
    throw ConfigError("A slice of a core's time is above 0 seconds.");
  free_at_.resize(static_cast<std::size_t>(cores.count));
}

double CoreQueue::serve(double time, double seconds) {
  double& first = *std::ranges::min_element(free_at_);
  first = std::max(first, time) + seconds;
  return first;
}

}  // namespace topknot::transports

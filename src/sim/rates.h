// SPDX-License-Identifier: Apache-2.0
//
// What a rank's own work costs, and how fast the network is: measured, or as it was measured on
// some machine.
//
// The work of a step is taken to be proportional to the vector, for what folds, selects and
// writes the sum, and to the bytes that come in, for what codes, decodes and adds. Two numbers for
// each scheme describe its work at any number of ranks, since what grows with the ranks is what
// comes in.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "topknot/simulated.h"

namespace topknot::sim {

/// Of a core, whatever shares it.
struct Rates {
  double per_coordinate = 0;  ///< seconds
  double per_byte = 0;        ///< seconds, for each byte received
};

/// One measurement of a rank's work.
struct WorkSample {
  double coordinates;
  double bytes;
  double seconds;
};

/// The rates that fit the samples best, by relative error; none is negative.
Rates fit(std::span<const WorkSample> samples);

struct Calibration {
  LinkSpeed link;  ///< bandwidth 0: not measured
  Cores cores;  ///< that the ranks shared, all on one machine and more than it has cores
  std::map<std::string, Rates, std::less<>> by_scheme;

  /// Those of `scheme`; where it was not measured, those of a typical one.
  Rates rates(std::string_view scheme) const;
};

/// What to expect of a core of a server; `advise --measure` knows better.
const Calibration& default_calibration();

}  // namespace topknot::sim

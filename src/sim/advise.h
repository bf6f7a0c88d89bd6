// SPDX-License-Identifier: Apache-2.0
//
// Which scheme to take. The fastest wins, but what is simpler stays where the gain is small: dense
// before dense in bf16, that before knot, and knot before all others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/predict.h"

namespace topknot::sim {

struct Advice {
  Prediction choice;
  /// The line rate, in Gb/s, up to which the best sparse scheme is faster than dense; 0: never.
  double break_even_gbps = 0;
  std::string reason;             ///< one paragraph
  std::vector<Prediction> table;  ///< the fastest first
};

/// "1.23 s" or "45.6 ms".
std::string time_text(double seconds);

/// A scheme must be so much faster than a simpler one to be taken instead.
inline constexpr double kWorthwhile = 1.05;

/// The line rate, in Gb/s, beyond which no break-even is looked for.
inline constexpr double kAnyRate = 1e4;

/// Compares `candidates` with each other and with dense, by `predictor`, on `ranks` over `line`.
/// `quick` finds the break-even, at many bandwidths.
Advice advise(Predictor& predictor, Predictor& quick,
              std::span<const Candidate> candidates, int ranks, const Line& line);

}  // namespace topknot::sim

// SPDX-License-Identifier: Apache-2.0
//
// bench step --optimizer: one rank's step of an optimizer, held against a loop that reads and
// writes the same vectors once; no step can be faster than that loop.
#pragma once

#include <string>
#include <vector>

#include "cli/bench.h"

namespace topknot::cli {

/// Two rows for each optimizer, as "adam" or "sgd:momentum=0.9":
///
///   local step   it moves the weights, as between the exchanges of rounds
///   every step   a bucket's whole step with the memory that steps before the exchange: moments,
///                fold and selection, on one rank
Json measure_optimizers(const Problem& problem,
                        const std::vector<std::string>& optimizers, int steps);

void print_optimizers(const Json& all);

}  // namespace topknot::cli

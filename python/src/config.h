// SPDX-License-Identifier: Apache-2.0
//
// What a user asked for: how gradients are reduced, the same on every rank.
#pragma once

#include <string>
#include <vector>

#include "engine/bucket.h"
#include "engine/rules.h"

namespace topknot::python {

using namespace topknot::engine;  // NOLINT: State, wherever it is kept

struct Config {
  engine::Recipe recipe;
  double density = 0.01;
  std::uint64_t steps_per_epoch = 0;  ///< 0: not known
  double clip = 0;                    ///< see Recipe::clipped(); 0 is no clipping
  std::uint64_t coordinates = 0;      ///< of the whole gradient; 0: each plan's is whole
  std::vector<engine::Rule> rules;
  /// Whether the residuals of a step that turns out not finite are put back in all buckets, also
  /// in those that were reduced before it turned out; costs a copy of the residuals a step.
  bool rollback = false;

  /// By names, as in the catalog; an empty memory, compressor, collective or schedule is the
  /// scheme's.
  /// Throws ConfigError for what does not exist.
  static Config parse(const std::string& scheme, const std::string& memory,
                      const std::string& compressor, const std::string& collective,
                      double density, const std::string& schedule,
                      std::uint64_t steps_per_epoch, double clip,
                      std::uint64_t coordinates, const std::vector<std::string>& rules,
                      bool rollback);
};

}  // namespace topknot::python

// SPDX-License-Identifier: Apache-2.0
//
// The runs that a comparison is made of: one for each scheme, density and seed, each in a folder of
// its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "job/job.h"

namespace topknot::cli {

struct Combination {
  std::string name;  ///< of its folder, as "oktopk-0.01-seed1"
  train::Job job;
};

struct Choices {
  std::vector<std::string> schemes;
  std::vector<double> densities;  ///< empty: what job or scheme has; dense has none
  std::int64_t seeds = 1;         ///< the job's seed and those after it
};

/// All combinations, by scheme, density and seed. Throws ConfigError for one that cannot be
/// trained, and for one that is there twice.
std::vector<Combination> combine(const train::Job& job, const Choices& choices);

enum class RunState {
  absent,       ///< no run is in the folder, or one that never saved anything
  interrupted,  ///< it can be resumed
  done,
};

/// What is in `folder`. Throws ConfigError where that is a run of another job, by the first key
/// that differs; folders of data and timeouts may.
RunState state_of(const std::filesystem::path& folder, const train::Job& job);

}  // namespace topknot::cli

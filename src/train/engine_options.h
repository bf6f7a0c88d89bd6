// SPDX-License-Identifier: Apache-2.0
//
// What a job asks of the engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topknot/engine.h"
#include "train/job.h"

namespace topknot::train {

/// DGC applies momentum before it sparsifies; the optimizer of what was exchanged, the outer one
/// of local steps, must not apply it again. Moves it there, and says so in `remarks`.
void move_momentum(Job& job, std::vector<std::string>& remarks);

/// Gives `job` the density schedule of its scheme where it has none of its own, and says so in
/// `remarks` where that is a warm-up.
void take_schedule(Job& job, std::vector<std::string>& remarks);

/// Whether `clip` is for each worker's own gradient before it joins what is owed, as DGC has it,
/// and not for what was exchanged. Local steps clip their own.
bool clips_before(const Job& job);

/// How long a run is, in exchanges, which is what the engine counts. 0: not known.
struct Pace {
  std::uint64_t per_epoch = 0;
  std::uint64_t in_all = 0;

  static Pace of(const Job& job, std::uint64_t steps_per_epoch);
};

EngineOptions engine_options(const Job& job, int channel, const Pace& pace = {});

}  // namespace topknot::train

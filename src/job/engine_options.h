// SPDX-License-Identifier: Apache-2.0
//
// The engine's options, as they follow from a job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "topknot/engine.h"
#include "topknot/params.h"

namespace topknot::train {

/// The job's own memory, or its scheme's.
Spec memory_of(const Job& job);

/// Decides what is exchanged (`exchange` is then "updates" or "gradients"), and how its bytes are
/// spent (topknot/budget.h): `local_steps`, `density` and the bits of a value. Throws ConfigError
/// for a budget of gradients.
void spend(Job& job, std::vector<std::string>& notices);

/// Decides which part of the optimizer goes where, after spend():
///
///   updates     the engine's memory is the optimizer: it steps on each rank's own gradient.
///               With local steps the optimizer steps on the rank's own weights, and the mean
///               change moves the agreed ones as it is
///   gradients   the optimizer steps on the mean that was exchanged. The memory dgc applies
///               momentum before it sparsifies, so that optimizer (with local steps the outer
///               one) must not apply it again
///
/// Says in `notices` what was moved.
void place_optimizer(Job& job, std::vector<std::string>& notices);

/// When one dense exchange settles all residuals.
struct Settling {
  bool at_end = false;
  std::uint64_t every = 0;  ///< steps between exchanges; 0: none before the end
  /// "end", "never" or a number of steps, which settles at the end too. Throws ConfigError.
  static Settling parse(const std::string& text);
  /// Asked after `step` steps, at the end of a round that began after `from`.
  bool is_due(std::uint64_t from, std::uint64_t step, bool run_ends) const {
    return (every > 0 && step / every > from / every) || (at_end && run_ends);
  }
};

/// Gives `job` the density schedule of its scheme where it has none of its own, and says so in
/// `notices` where that is a warm-up.
void take_schedule(Job& job, std::vector<std::string>& notices);

/// The job as it is run: all of the above. Says in `notices` what was decided.
Job prepared(Job job, std::vector<std::string>& notices);

/// Whether `clip` limits each worker's own gradient before it joins the residual, as in DGC, and
/// not the mean that was exchanged. False with local steps, which clip on their own.
bool clips_before(const Job& job);

/// The length of a run in exchanges, which the engine counts as its steps. 0: not known.
struct Pace {
  std::uint64_t per_epoch = 0;
  std::uint64_t in_all = 0;

  static Pace of(const Job& job, std::uint64_t steps_per_epoch);
};

EngineOptions engine_options(const Job& job, int channel, const Pace& pace = {});

}  // namespace topknot::train

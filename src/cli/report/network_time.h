// SPDX-License-Identifier: Apache-2.0
//
// What the steps of a recorded run would take on another network.
//
// Everything that the ranks did themselves is taken from the run; the messages are simulated: the run's
// own scheme, on as many ranks, buckets and densities as it had. As much of an exchange is hidden
// behind the backward pass as was in the run.
#pragma once

#include <map>
#include <vector>

#include "cli/run_folder.h"
#include "engine/recipe.h"
#include "topknot/simulated.h"

namespace topknot::cli {

/// What one step of rank 0 took, in seconds.
struct MeasuredStep {
  double seconds = 0;
  double busy = 0;     ///< of the communication thread
  double wait = 0;     ///< within that
  double exposed = 0;  ///< what the step was longer for it
  double density = 0;  ///< that was asked for; 0: nothing was exchanged
};

class NetworkTime {
 public:
  /// Of the run that `run` (run.json) describes. Throws DataError where it says too little.
  NetworkTime(const Json& run, const Network& network);

  /// The step on that network.
  double seconds(const MeasuredStep& step);

 private:
  double on_the_way(double density);

  const Network network_;
  engine::Recipe recipe_;
  bool whole_last_ = false;  // the last bucket is sent whole
  int ranks_ = 1;
  std::vector<double> buckets_;     // coordinates
  std::map<double, double> known_;  // by density
};

}  // namespace topknot::cli

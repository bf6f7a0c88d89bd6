// SPDX-License-Identifier: Apache-2.0
//
// The constants of Ok-Topk (Li and Hoefler, PPoPP 2022), which reuses two thresholds: every
// rank's own, with which it selects (the compressor `reuse`), and the global one, with which
// the owners choose among the sums (the collective `oktopk`). Both read them here, so that
// one set of parameters decides both.
//
// The published code has constants for each of its three workloads. `any` is ours: the
// global threshold is corrected beyond two percent of k, the local one by how steeply the
// count falls (see reuse.cc).
#pragma once

#include <cstdint>
#include <string>

#include "topknot/params.h"

namespace topknot::core {

struct ThresholdReuse {
  /// Below low * k the threshold is divided by `lower`, above high * k multiplied by `raise`.
  struct Control {
    double low;
    double high;
    double lower;  ///< 0: by no constant
    double raise;
  };

  Control local;
  Control global;
  double
      cut;  ///< within a step, the local one is raised while more than cut * k came; 0: never
  std::int64_t tau_prime;  ///< steps between exact thresholds
  bool faithful = false;   ///< as published: no closer steps at the start, no bounds

  /// Reads workload, tau_prime and faithful.
  static ThresholdReuse read(Params& params) {
    ThresholdReuse made = of(params.choice("workload", {"any", "vgg", "lstm", "bert"},
                                           "whose constants correct the thresholds"));
    made.tau_prime = params.integer("tau_prime", made.tau_prime, 1, 1 << 20,
                                    "steps between exact thresholds");
    made.faithful = params.flag("faithful", false,
                                "as published: a fixed period from the start, no bounds");
    return made;
  }

 private:
  static ThresholdReuse of(const std::string& workload) {
    if (workload == "vgg")
      return {{2.0 / 3, 5.0 / 4, 1.012, 1.012},
              {2.0 / 3, 4.0 / 3, 1.008, 1.008},
              4.0 / 3,
              32};
    if (workload == "lstm")
      return {
          {3.0 / 4, 5.0 / 4, 1.012, 1.012}, {3.0 / 4, 5.0 / 4, 1.01, 1.008}, 3.0 / 2, 32};
    if (workload == "bert")
      return {{4.0 / 5, 5.0 / 4, 1.025, 1.025}, {4.0 / 5, 5.0 / 4, 1.036, 1.025}, 0, 128};
    return {{1, 1, 0, 0}, {0.98, 1.02, 1.01, 1.01}, 0, 32};
  }
};

}  // namespace topknot::core

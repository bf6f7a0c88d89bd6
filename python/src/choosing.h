// SPDX-License-Identifier: Apache-2.0
//
// scheme="auto" and topknot.advise(), for Python: sim/choose.h and sim/advise.h do the work.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "session.h"

namespace topknot::python {

/// Between dense and the exchange of `session`, every `every` steps, for a model of these
/// parameters in buckets of `bytes`, by exchanges that are measured now. Returns whether anything is
/// sparse, the names of parameters that are sent whole nevertheless, and the reason. All ranks call it,
/// before anything is reduced.
pybind11::tuple choose(Session& session, const Layout& parameters, std::uint64_t bytes,
                       std::uint64_t every);

/// For a model of `params` on a network that is known: choice, density, break_even_gbps, reason and
/// table, as `topknot advise --json` has them. Throws ConfigError.
pybind11::dict advise(double params, double compute, int workers, double gbps,
                      double latency, double density,
                      const std::vector<std::string>& schemes, bool simulated);

}  // namespace topknot::python

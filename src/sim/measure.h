// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "sim/predict.h"
#include "sim/rates.h"
#include "topknot/transport.h"

namespace topknot::sim {

/// Measures the network between the ranks of `link`, and the work of each of `candidates` with all
/// ranks at work at once. All ranks call it, and all get the same. `coordinates` is the length of
/// the vectors. `progress` is called after each candidate.
Calibration measure(Transport& link, std::span<const Candidate> candidates,
                    std::size_t coordinates, const std::function<void()>& progress);

}  // namespace topknot::sim

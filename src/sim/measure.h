// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "sim/predict.h"
#include "sim/rates.h"
#include "topknot/transport.h"

namespace topknot::sim {

/// Seconds of a processor that the calling thread has had.
using ProcessorClock = std::function<double()>;
ProcessorClock thread_clock();

/// Measures the network between the ranks of `link`, and the work of each of `candidates` with all
/// ranks at work at once: caches and memory are shared as they will be. What counts is the time of
/// `processor`, so that a rank which waits for a core is not charged for it. All ranks call it, and
/// all get the same. `coordinates` is the length of the vectors. `progress` is called after each
/// candidate.
Calibration measure(Transport& link, std::span<const Candidate> candidates,
                    std::size_t coordinates, const std::function<void()>& progress,
                    const ProcessorClock& processor = thread_clock());

}  // namespace topknot::sim

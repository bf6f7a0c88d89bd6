// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "job/job.h"

namespace topknot::cli {

/// The bytes that the busiest of `workers` ranks will send in a step, about: the job's own exchange,
/// between threads, on drawn gradients of at most 2^16 coordinates, scaled up to all. With local
/// steps, spread over these. `as_run` is a job as prepared() makes it.
double expected_bytes(const train::Job& as_run, std::uint64_t coordinates, int workers);

}  // namespace topknot::cli

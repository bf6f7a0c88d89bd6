// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "sim/predict.h"

namespace topknot::cli {

/// What a run of `topknot train --out` computed and exchanged: run.json has the buckets,
/// steps.jsonl the compute, and trace.json, where there is one, when rank 0 began to exchange each
/// bucket; without it they are ready evenly over backward. Medians over the steps. Throws DataError
/// when the folder has no run.
sim::Workload recorded_workload(const std::filesystem::path& folder);

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/predict.h"

namespace topknot::cli {

/// The parameters and buckets of a job's model and, where `timed`, the compute of one of its steps on
/// this machine. Throws ConfigError for a command without a trainer, and as train() does.
sim::Workload workload_of_job(const std::string& name, bool timed);

}  // namespace topknot::cli

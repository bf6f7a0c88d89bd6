// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "train/progress.h"
#include "train/replica.h"

namespace topknot::train {

/// What an observer hears before the first step.
Start describe_start(const Job& job, const Progress& progress, const Task& task,
                     Replica& replica, int ranks,
                     const std::vector<std::string>& notices);

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// What a job asks of the engine.
#pragma once

#include <string>
#include <vector>

#include "topknot/engine.h"
#include "train/job.h"

namespace topknot::train {

/// DGC applies momentum before it sparsifies; the optimizer of what was exchanged, the outer one
/// of local steps, must not apply it again. Moves it there, and says so in `remarks`.
void move_momentum(Job& job, std::vector<std::string>& remarks);

EngineOptions engine_options(const Job& job, int channel);

}  // namespace topknot::train

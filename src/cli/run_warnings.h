// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "train/train.h"

namespace topknot::cli {

/// Sentences about what a job asks for and does not get: rules that match no parameter, and a
/// density of which not one coordinate is left.
std::vector<std::string> warnings_about(const train::Start& start);

}  // namespace topknot::cli

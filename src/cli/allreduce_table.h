// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/allreduce_steps.h"

namespace topknot::cli {

/// The rows of one length, the baseline first.
using AllreduceBlock = std::vector<AllreduceRow>;

/// Prints a table, or JSON, of what was measured at each length, and the lines fitted through them.
void print_results(const AllreduceOptions& options, int ranks,
                   const std::vector<AllreduceBlock>& blocks);

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/report/run_data.h"

namespace topknot::cli {

/// A row for each configuration, with means over its seeds; behind the metric stands its standard
/// deviation where there are several. Times are those of docs/compare.md.
std::string comparison_table(const std::vector<RunData>& runs,
                             const std::optional<double>& target);

/// The same for programs: {"metric", "results": [{"run", "seeds", ...}]}.
Json comparison_json(const std::vector<RunData>& runs,
                     const std::optional<double>& target);

}  // namespace topknot::cli

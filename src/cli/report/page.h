// SPDX-License-Identifier: Apache-2.0
//
// One page of HTML that shows runs: everything is in it, so it can be mailed and opened without
// a network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/report/run_data.h"

namespace topknot::cli {

struct PageOptions {
  std::string title;
  std::optional<double> target;  ///< a value of the metric, for "time to"
  std::string network = {};      ///< on which the runs are shown, too; empty: none
};

/// What the page's script reads. `runs` is not empty.
Json page_data(const std::vector<RunData>& runs, const PageOptions& options);

/// The page, with the plotting library where this build has one.
std::string make_page(const Json& data);

/// Whether this build has the plotting library; else what to do about it, in a sentence.
bool has_plotting_library();
std::string missing_plotting_library();

}  // namespace topknot::cli

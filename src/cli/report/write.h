// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/run_data.h"

namespace topknot::cli {

struct ReportOptions {
  std::filesystem::path page = "report.html";
  std::string title;               ///< empty: the job's name
  std::optional<double> target;    ///< a value of the metric
  std::string network;             ///< a preset's name, with which the runs were read
  std::filesystem::path pictures;  ///< a folder; empty: none are taken
  std::vector<std::string> plots;  ///< pictures of these alone; empty: of all
  bool dark = false;               ///< pictures
  std::FILE* to = stdout;          ///< where it says what it wrote
};

/// Writes the page, in one instant, and its pictures, and prints where they are. Says on the
/// error output when the page has no plots. Throws ConfigError, StorageError.
void write_report(const std::vector<RunData>& runs, const ReportOptions& options);

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
//
// Pictures of a page, taken by Chromium without a window.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace topknot::cli {

/// The path of Chromium or Chrome. Throws ConfigError where neither is installed.
std::filesystem::path find_chromium();

/// The names of the page's plots: what the attributes data-plot have once its script has run.
std::vector<std::string> plots_in(const std::filesystem::path& chromium,
                                  const std::filesystem::path& page);

struct PictureSize {
  int width = 1000;
  int height = 560;
};

/// Opens `page` at `fragment` (as "only=loss-steps") and writes what it shows to `png`. Throws
/// StorageError where there is no picture after that.
void take_picture(const std::filesystem::path& chromium,
                  const std::filesystem::path& page, const std::string& fragment,
                  PictureSize size, const std::filesystem::path& png);

}  // namespace topknot::cli

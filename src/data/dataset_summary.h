// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"

namespace topknot::data {

/// Counts of what a set holds, such as {"training images", 50000}, in the order to print.
using DatasetSummary = std::vector<std::pair<std::string, std::size_t>>;

/// Reads all of the set, which find_folder finds by `folder`. Throws as that and the reader do.
DatasetSummary summarize(const Dataset& set, const std::filesystem::path& folder);

}  // namespace topknot::data

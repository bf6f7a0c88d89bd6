// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"

namespace topknot::data {

/// What a set holds, such as {"training images", 50000}, in the order to say it in.
using DatasetSummary = std::vector<std::pair<std::string, std::size_t>>;

/// Opens all of the set in `folder` with its reader and counts. Throws as the reader does.
DatasetSummary summarize(const Dataset& set, const std::filesystem::path& folder);

}  // namespace topknot::data

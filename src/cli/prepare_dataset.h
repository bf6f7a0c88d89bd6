// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "data/dataset_summary.h"

namespace topknot::cli {

struct PrepareOptions {
  std::filesystem::path into = "data";          ///< where the set's folder is made
  std::optional<std::filesystem::path> from;    ///< what the user has already
  bool unchecked = false;                       ///< take it with another hash
  std::function<void(const std::string&)> say;  ///< hears what is being done
};

struct Prepared {
  std::filesystem::path folder;
  data::DatasetSummary summary;
  bool was_there = false;
};

/// Fetches or takes the set, checks its hash and its members, unpacks it beside its place,
/// opens it with its reader, and only then moves it into place: a folder that is there is
/// whole. Throws DataError, ConfigError or StorageError and leaves nothing behind.
Prepared prepare_dataset(const data::Dataset& set, const PrepareOptions& options);

}  // namespace topknot::cli

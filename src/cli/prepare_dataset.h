// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "data/dataset_summary.h"

namespace topknot::cli {

struct PrepareOptions {
  std::filesystem::path into = "data";  ///< the parent of the set's folder
  std::optional<std::filesystem::path>
      from;  ///< the user's own archive, or the set unpacked; nothing is fetched
  bool unchecked = false;                       ///< accept `from` with another hash
  std::function<void(const std::string&)> say;  ///< called with each message for the user
};

struct Prepared {
  std::filesystem::path folder;
  data::DatasetSummary summary;
  bool was_there = false;
};

/// Fetches the set or takes it from `options.from`, checks its hash and members, unpacks it into
/// a StagingFolder, reads all of it, and only then moves it into place, so that a folder in place
/// is always complete. Throws DataError, ConfigError or StorageError and then leaves no file.
Prepared prepare_dataset(const data::Dataset& set, const PrepareOptions& options);

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include <algorithm>

#include "core/names.h"

namespace topknot::data {

// The descriptions, each defined in the data set's own file.
namespace sets {
#define DATASET(name) Dataset name();
#include "data/datasets.def"
}  // namespace sets

namespace {

namespace fs = std::filesystem;

bool has_mark(const Dataset& set, const fs::path& folder) {
  std::error_code error;
  return std::any_of(set.marks.begin(), set.marks.end(), [&](std::string_view mark) {
    return fs::exists(folder / mark, error);
  });
}

}  // namespace

std::span<const Dataset> datasets() {
  static const std::vector<Dataset> all = {
#define DATASET(name) sets::name(),
#include "data/datasets.def"
  };
  return all;
}

const Dataset& find_dataset(std::string_view name) {
  std::vector<std::string> names;
  for (const Dataset& set : datasets()) {
    if (set.name == name) return set;
    names.emplace_back(set.name);
  }
  throw ConfigError("There is no data set " + in_quotes(name) +
                    core::suggestion(name, names) + ".");
}

std::string how_to_get(const Dataset& set) {
  std::string said;
  if (!set.archives.empty())
    said = "`topknot data " + std::string(set.name) + "` fetches it";
  if (!set.by_hand.empty()) {
    if (!said.empty()) said += ", or ";
    said += set.by_hand;
  }
  return said + ".";
}

bool has_set(const Dataset& set, const fs::path& folder) {
  return has_mark(set, folder / set.folder) || has_mark(set, folder);
}

fs::path find_folder(const Dataset& set, const fs::path& folder) {
  if (folder.empty() && set.system_folder.empty())
    throw DataError("No folder was named for " + std::string(set.name) + "; " +
                    how_to_get(set));
  const fs::path given = folder.empty() ? fs::path(set.system_folder) : folder;
  for (const fs::path& at : {given / set.folder, given})
    if (has_mark(set, at)) return at;
  throw DataError(about(given) + "there is no " + std::string(set.name) + " in it; " +
                  how_to_get(set));
}

}  // namespace topknot::data

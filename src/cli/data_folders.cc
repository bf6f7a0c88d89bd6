// SPDX-License-Identifier: Apache-2.0
#include "cli/data_folders.h"

#include <algorithm>
#include <cstdlib>

#include "core/names.h"
#include "topknot/params.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

fs::path user_cache() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "topknot";
  const char* const home = std::getenv("HOME");
  return home == nullptr ? fs::path() : fs::path(home) / ".cache" / "topknot";
}

const data::Dataset* set_named(const std::string& name) {
  for (const data::Dataset& set : data::datasets())
    if (set.name == name) return &set;
  return nullptr;
}

}  // namespace

std::vector<fs::path> data_folders(const data::Dataset& set, const std::string& given) {
  if (!given.empty()) return {given};
  std::vector<fs::path> folders;
  if (const char* const named = std::getenv("TOPKNOT_DATA");
      named != nullptr && *named != '\0')
    folders.emplace_back(named);
  folders.emplace_back("data");
  if (const fs::path cache = user_cache(); !cache.empty()) folders.push_back(cache);
  if (!set.system_folder.empty()) folders.emplace_back(set.system_folder);
  return folders;
}

fs::path find_data(const data::Dataset& set, const std::string& given) {
  std::vector<std::string> looked;
  for (const fs::path& folder : data_folders(set, given)) {
    if (data::has_set(set, folder)) return folder;
    looked.push_back(folder.string());
  }
  throw DataError(std::string(set.name) + " is not in " + core::listed(looked, " or ") +
                  "; " + data::how_to_get(set));
}

train::Job with_data_found(train::Job job) {
  const data::Dataset* const set = set_named(Spec::parse(job.data).name);
  if (set == nullptr) return job;
  try {
    job.folder = find_data(*set, job.folder).string();
  } catch (const DataError&) {  // the trainer will say what it needs
  }
  return job;
}

void require_data(const train::Job& job) {
  if (const data::Dataset* const set = set_named(Spec::parse(job.data).name))
    find_data(*set, job.folder);
}

bool names_a_set(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  std::error_code none;
  return name == "generated" ||
         (set_named(name) != nullptr && !fs::is_directory(text, none));
}

}  // namespace topknot::cli

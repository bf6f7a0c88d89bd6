// SPDX-License-Identifier: Apache-2.0
#include "cli/combinations.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "cli/run_folder.h"
#include "cli/run_log.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

/// A scheme's text as part of a folder's name: "dgc:momentum=0.9" has characters that shells and
/// browsers read differently.
std::string file_name(std::string text) {
  for (char& letter : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (!plain && letter != '.' && letter != '-') letter = '_';
  }
  return text;
}

Combination make(const train::Job& job, const std::string& scheme, double density,
                 std::int64_t seed) {
  Combination one{file_name(scheme), job};
  train::set(one.job, "scheme", scheme);
  if (density > 0) {
    one.job.density = density;
    one.job.budget = 0;  // a density instead of the job's budget
    one.name += fmt::format("-{}", density);
  }
  one.job.seed = seed;
  one.name += fmt::format("-seed{}", seed);
  train::check(one.job);
  return one;
}

bool may_differ(const std::string& key) {
  return key == "folder" || key == "threads" || key == "timeout" ||
         key == "checkpoint_timeout" || key == "name";
}

}  // namespace

std::vector<Combination> combine(const train::Job& job, const Choices& choices) {
  if (choices.seeds < 1) throw ConfigError("--seeds is the number of seeds, from 1.");
  std::vector<Combination> all;
  std::set<std::string> names;
  for (const std::string& scheme : choices.schemes) {
    std::vector<double> densities = choices.densities;
    if (densities.empty() || scheme == "dense") densities = {0};
    for (const double density : densities)
      for (std::int64_t seed = job.seed; seed < job.seed + choices.seeds; ++seed) {
        all.push_back(make(job, scheme, density, seed));
        if (!names.insert(all.back().name).second)
          throw ConfigError(fmt::format(
              "The combination {} is there twice: give each scheme and density "
              "once.",
              all.back().name));
      }
  }
  return all;
}

RunState state_of(const fs::path& folder, const train::Job& job) {
  if (!fs::exists(folder / "run.json")) return RunState::absent;
  const Json run = read_json(folder / "run.json");
  if (!run.is_object() || !run.contains("job"))
    throw ConfigError(
        fmt::format("{} is damaged: remove this folder, and the run is made again.",
                    (folder / "run.json").string()));
  const Json wanted = to_json(job);
  for (const auto& [key, value] : wanted.items()) {
    const Json before = run["job"].value(key, Json());
    if (before != value && !may_differ(key))
      throw ConfigError(fmt::format(
          "The run in {} has {} = {}, not {}: name another --out, or remove it.",
          folder.string(), key, before.dump(), value.dump()));
  }
  if (fs::exists(folder / "result.json")) return RunState::done;
  const fs::path saved = checkpoints_in(folder);
  return fs::exists(saved) && !fs::is_empty(saved) ? RunState::interrupted
                                                   : RunState::absent;
}

}  // namespace topknot::cli

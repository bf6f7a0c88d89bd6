// SPDX-License-Identifier: Apache-2.0
#include "cli/resume.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/run_folder.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

// Weights, residuals or the order of the data would not be what the run began with.
constexpr std::string_view kFixed[] = {"model", "data", "seed"};
// Not worth a word.
constexpr std::string_view kFree[] = {"name",
                                      "folder",
                                      "threads",
                                      "timeout",
                                      "checkpoint_timeout",
                                      "checkpoint_every",
                                      "check_every",
                                      "workers",
                                      "epochs",
                                      "steps",
                                      "evaluate",
                                      "evaluate_every",
                                      "evaluate_samples"};

bool is_one_of(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// An optimizer of another kind has another state; its parameters may change.
bool is_fixed(std::string_view key, const std::string& was, const std::string& is) {
  if (key == "optimizer") return Spec::parse(was).name != Spec::parse(is).name;
  return is_one_of(kFixed, key);
}

std::string shown(const std::string& value) { return value.empty() ? "(empty)" : value; }

}  // namespace

void require_run(const fs::path& run) {
  std::error_code none;
  if (!fs::is_directory(run, none))
    throw NoCheckpointError(
        fmt::format("There is no folder {}, so there is no checkpoint to resume from.",
                    run.string()));
  if (!fs::is_directory(checkpoints_in(run), none))
    throw NoCheckpointError(
        fmt::format("The folder {} has no checkpoint to resume from.", run.string()));
}

train::Job job_of_run(const fs::path& run) {
  const Json json = read_json(run / "run.json");
  if (!json.is_object() || !json.contains("job"))
    throw NoCheckpointError(
        fmt::format("The folder {} has no run.json to read its job from; name the JOB.",
                    run.string()));
  train::Job job;
  try {
    set_from_json(job, json["job"]);
  } catch (const ConfigError& error) {
    throw ConfigError((run / "run.json").string() + ": " + error.what());
  }
  return job;
}

std::vector<std::string> changes_since(const fs::path& run, const train::Job& job) {
  if (!fs::exists(run / "run.json")) return {};
  const train::Job before = job_of_run(run);
  std::vector<std::string> sentences;
  for (const train::Key& key : train::keys()) {
    const std::string was = train::get(before, key.name);
    const std::string is = train::get(job, key.name);
    if (was == is || is_one_of(kFree, key.name)) continue;
    if (is_fixed(key.name, was, is))
      throw ConfigError(
          fmt::format("The run in {} has {} = {}, and {} was asked for: leave it, or "
                      "start another run "
                      "in a folder of its own.",
                      run.string(), key.name, shown(was), shown(is)));
    sentences.push_back(fmt::format("{} was {} and is {} from here on.", key.name,
                                    shown(was), shown(is)));
  }
  return sentences;
}

std::optional<Json> finished_result(const fs::path& run, const train::Job& job) {
  const Json result = read_json(run / "result.json");
  if (!result.is_object() || !fs::exists(run / "run.json")) return std::nullopt;
  const train::Job before = job_of_run(run);
  const auto steps = result.value("steps", std::uint64_t{0});
  const bool longer = job.epochs > before.epochs ||
                      (job.steps == 0 && before.steps != 0) || job.steps > before.steps;
  const auto wanted = static_cast<std::uint64_t>(job.steps);
  if (longer || (wanted != 0 && wanted < steps)) return std::nullopt;
  return result;
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/command/job_settings.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/data_folders.h"
#include "cli/help.h"
#include "cli/job_file.h"
#include "core/names.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

/// A flag that stands for a key.
struct KeyFlag {
  std::string_view key;
  const char* value;  // how it is called in the help
  const char* group;
  const char* meaning;

  std::string flag() const { return "--" + std::string(key); }
};

constexpr KeyFlag kKeyFlags[] = {
    {"epochs", "N", kJobGroup, "Passes over the training set"},
    {"steps", "N", kJobGroup, "Stop after so many; 0: after the epochs"},
    {"batch", "N", kJobGroup, "Samples of one worker in one pass forward"},
    {"lr", "X", kJobGroup, "Learning rate"},
    {"optimizer", "OPTIMIZER", kJobGroup, "As in sgd:momentum=0.9 or adam"},
    {"model", "MODEL", kJobGroup, "What to train; `topknot list models`"},
    {"data", "DATASET", kJobGroup, "A data set, or the folder that has it"},
    {"seed", "N", kJobGroup, "Of every random draw"},
    {"workers", "N", kJobGroup, "Ranks, as threads. Under mpirun, its own number"},
    {"scheme", "SCHEME", kExchangeGroup,
     "How the workers agree on a sum, as in knot:values=bf16; `topknot list`"},
    {"budget", "SHARE", kExchangeGroup, "Bytes sent, as a share of dense's"},
    {"density", "SHARE", kExchangeGroup,
     "Share of the coordinates that an exchange sends"},
    {"compressor", "COMPRESSOR", kExchangeGroup, "Instead of the scheme's"},
    {"collective", "COLLECTIVE", kExchangeGroup, "Instead of the scheme's"},
    {"memory", "MEMORY", kExchangeGroup, "Instead of the scheme's"},
    {"timeout", "SECONDS", kAlso, "Seconds after which a silent rank ends the run"},
    {"nonfinite", "abort|skip", kAlso,
     "What a step that is not finite does: abort the run, or skip"},
};

constexpr std::string_view kNoEvaluate = "--no-evaluate";

/// The key that a value is for: --data may name a data set or its folder.
std::string key_of(const KeyFlag& flag, const std::string& value) {
  return flag.key == "data" && !names_a_set(value) ? "folder" : std::string(flag.key);
}

}  // namespace

void JobSettings::add_to(CLI::App& command, std::span<const std::string_view> left_out) {
  for (const KeyFlag& flag : kKeyFlags) {
    if (std::ranges::count(left_out, flag.key) > 0) continue;
    command
        .add_option_function<std::string>(
            flag.flag(),
            [this, flag](const std::string& value) {
              flags_.emplace_back(flag.flag() + " " + value,
                                  key_of(flag, value) + "=" + value);
            },
            flag.meaning)
        ->type_name(flag.value)
        ->group(flag.group);
  }
  command.add_option("--set", set_, "Any keys of `topknot list keys`")
      ->type_name("KEY=VALUE")
      ->group(kRunGroup);
  command
      .add_flag_callback(
          std::string(kNoEvaluate),
          [this] { flags_.emplace_back(kNoEvaluate, "evaluate=false"); },
          "Do not try the model on the test set")
      ->group(kRunGroup);
}

void JobSettings::check() const {
  for (const auto& [flag, setting] : flags_) {
    const std::string key = setting.substr(0, setting.find('='));
    for (const std::string& other : set_) {
      const std::size_t equals = std::min(other.find('='), other.size());
      if (core::same_name(other.substr(0, equals), key) &&
          other.substr(equals) != setting.substr(key.size()))
        throw ConfigError(fmt::format(
            "{} and --set {} contradict each other; give one of them.", flag, other));
    }
  }
}

std::vector<std::string> JobSettings::all() const {
  std::vector<std::string> settings = set_;
  for (const auto& [flag, setting] : flags_) settings.push_back(setting);
  return settings;
}

void JobSettings::apply_to(train::Job& job) const {
  for (const std::string& setting : all()) apply_setting(job, setting);
}

std::optional<int> JobSettings::workers() const {
  train::Job job;
  std::optional<int> given;
  for (const std::string& setting : all())
    if (setting.starts_with("workers=")) {
      apply_setting(job, setting);
      given = static_cast<int>(job.workers);
    }
  return given;
}

bool stands_for_a_key(std::string_view flag) {
  return flag == kNoEvaluate || std::ranges::any_of(kKeyFlags, [&](const KeyFlag& one) {
           return one.flag() == flag;
         });
}

}  // namespace topknot::cli

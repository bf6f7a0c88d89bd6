// SPDX-License-Identifier: Apache-2.0
#include "cli/command/train_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "cli/data_folders.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "core/names.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

constexpr const char* kJob = "The job";
constexpr const char* kExchange = "The exchange";
constexpr const char* kRun = "The run";

/// A flag that stands for a key.
struct KeyFlag {
  const char* flag;
  const char* key;
  const char* value;  // how it is called in the help
  const char* group;
  const char* meaning;
};

constexpr KeyFlag kKeyFlags[] = {
    {"--epochs", "epochs", "N", kJob, "Passes over the training set"},
    {"--steps", "steps", "N", kJob, "Stop after so many; 0: after the epochs"},
    {"--batch", "batch", "N", kJob, "Samples of one worker in one pass forward"},
    {"--lr", "lr", "X", kJob, "Learning rate"},
    {"--optimizer", "optimizer", "OPTIMIZER", kJob, "As in sgd:momentum=0.9 or adam"},
    {"--model", "model", "MODEL", kJob, "What to train; `topknot list models`"},
    {"--data", "data", "DATASET", kJob, "A data set, or the folder that has it"},
    {"--seed", "seed", "N", kJob, "Of every random draw"},
    {"--workers", "workers", "N", kJob,
     "Ranks, as threads. Under mpirun, its own number"},
    {"--scheme", "scheme", "SCHEME", kExchange,
     "How the workers agree on a sum, as in knot:values=bf16; `topknot list`"},
    {"--budget", "budget", "SHARE", kExchange, "Bytes sent, as a share of dense's"},
    {"--density", "density", "SHARE", kExchange,
     "Share of the coordinates that an exchange sends"},
    {"--compressor", "compressor", "COMPRESSOR", kExchange, "Instead of the scheme's"},
    {"--collective", "collective", "COLLECTIVE", kExchange, "Instead of the scheme's"},
    {"--memory", "memory", "MEMORY", kExchange, "Instead of the scheme's"},
    {"--timeout", "timeout", "SECONDS", kAlso,
     "Seconds after which a silent rank ends the run"},
    {"--nonfinite", "nonfinite", "abort|skip", kAlso,
     "What a step that is not finite does: abort the run, or skip"},
};

bool stands_for_a_key(const std::string& flag) {
  return flag == "--no-evaluate" ||
         std::ranges::any_of(kKeyFlags,
                             [&](const KeyFlag& one) { return one.flag == flag; });
}

/// How a flag is compared between ranks.
enum class Compared { value, given, no };

struct FlagRule {
  std::string_view name;
  Compared how;
};

// Every flag that is neither here nor stands for a key must have the same value.
constexpr FlagRule kFlagRules[] = {
    {"JOB", Compared::no},    // the file's path; its keys are compared
    {"--set", Compared::no},  // likewise
    {"--help", Compared::no},
    {"--json", Compared::no},          // rank 0 alone prints
    {"--quiet", Compared::no},         // likewise
    {"--tensorboard", Compared::no},   // and leaves these
    {"--print-sbatch", Compared::no},  // then no rank runs
    {"--print-pbs", Compared::no},
    {"--interface", Compared::given},         // hosts may call it by different names
    {"--out", Compared::given},               // hosts may have it under different paths
    {"--record-gradients", Compared::given},  // likewise
};

Compared compared(const std::string& name) {
  if (stands_for_a_key(name)) return Compared::no;
  for (const FlagRule& rule : kFlagRules)
    if (rule.name == name) return rule.how;
  return Compared::value;
}

void add_key(CLI::App& command, TrainOptions& options, const KeyFlag& flag) {
  command
      .add_option_function<std::string>(
          flag.flag,
          [&options, flag](const std::string& value) {
            const bool folder =
                flag.key == std::string_view("data") && !names_a_set(value);
            options.key_flags.emplace_back(
                std::string(flag.flag) + " " + value,
                std::string(folder ? "folder" : flag.key) + "=" + value);
          },
          flag.meaning)
      ->type_name(flag.value)
      ->group(flag.group);
}

void add_run(CLI::App& command, TrainOptions& options) {
  const auto flag = [&](const char* name, bool& value, const char* meaning) {
    command.add_flag(name, value, meaning)->group(kRun);
  };
  command.add_option("--set", options.settings, "Any keys of `topknot list keys`")
      ->type_name("KEY=VALUE")
      ->group(kRun);
  command.add_option("--out", options.out, "Folder for logs and checkpoints")
      ->type_name("DIR")
      ->group(kRun);
  flag("--resume", options.resume, "Continue the run in --out; needs no JOB");
  flag("--overwrite", options.overwrite, "Replace the run in --out");
  flag("--dry-run", options.dry_run,
       "Say what would be run, sent and kept; train nothing");
  flag("--tensorboard", options.tensorboard, "Leave event files in --out");
  flag("--trace", options.trace, "Leave trace.json in --out, for Perfetto");
  flag("--analyze", options.analyze,
       "Also record threshold and residual of each step, which takes time");
  flag("--json", options.json, "End with one line of JSON");
  flag("-q,--quiet", options.quiet, "No progress: only the summary, warnings and errors");
  command
      .add_flag_callback(
          "--no-evaluate",
          [&options] {
            options.key_flags.emplace_back("--no-evaluate", "evaluate=false");
          },
          "Do not try the model on the test set")
      ->group(kRun);
}

}  // namespace

void TrainOptions::add_to(CLI::App& command) {
  command
      .add_option("JOB", job,
                  "A TOML file, or a name of `topknot list jobs` (default quickstart)")
      ->type_name("JOB");
  for (const KeyFlag& flag : kKeyFlags) add_key(command, *this, flag);
  add_run(command, *this);
  record.add_to(command);
  add_interface(command, interface);
  batch.add_to(command);
  command.add_flag("--list", list, "Only list the jobs, as `topknot list jobs`")
      ->group(kAlso);
  command.add_flag("--keys", keys, "Only list the keys, as `topknot list keys`")
      ->group(kAlso);
  command.get_help_ptr()->group(kAlso);
}

void TrainOptions::check() const {
  if (resume && overwrite)
    throw ConfigError("--resume continues a run and --overwrite replaces it; give one.");
  for (const auto& [flag, setting] : key_flags) {
    const std::string key = setting.substr(0, setting.find('='));
    for (const std::string& other : settings) {
      const std::size_t equals = other.find('=');
      if (core::same_name(other.substr(0, equals), key) &&
          other.substr(std::min(equals, other.size())) != setting.substr(key.size()))
        throw ConfigError(fmt::format(
            "{} and --set {} contradict each other; give one of them.", flag, other));
    }
  }
  if (!out.empty()) return;
  for (const auto& [given, name] : {std::pair(resume, "--resume"),
                                    {overwrite, "--overwrite"},
                                    {tensorboard, "--tensorboard"},
                                    {trace, "--trace"},
                                    {analyze, "--analyze"}})
    if (given)
      throw ConfigError(fmt::format("{} needs --out DIR, the folder of the run.", name));
}

std::vector<std::string> TrainOptions::all_settings() const {
  std::vector<std::string> all = settings;
  for (const auto& [flag, setting] : key_flags) all.push_back(setting);
  return all;
}

train::Fields compared_flags(const CLI::App& command) {
  train::Fields fields;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const Compared how = compared(name);
    if (how == Compared::no) continue;
    std::string value = option->count() > 0 ? "(given)" : "(not given)";
    if (how == Compared::value && option->count() > 0 &&
        option->get_items_expected() > 0) {
      value.clear();
      for (const std::string& word : option->results())
        value += (value.empty() ? "" : " ") + word;
    }
    fields.push_back({name, value});
  }
  return fields;
}

}  // namespace topknot::cli

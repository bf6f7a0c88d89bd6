// SPDX-License-Identifier: Apache-2.0
#include "cli/command/train_options.h"

#include <fmt/core.h>

#include <string_view>

#include "cli/help.h"
#include "cli/launch.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

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

void add_run(CLI::App& command, TrainOptions& options) {
  const auto flag = [&](const char* name, bool& value, const char* meaning) {
    command.add_flag(name, value, meaning)->group(kRunGroup);
  };
  command.add_option("--out", options.out, "Folder for logs and checkpoints")
      ->type_name("DIR")
      ->group(kRunGroup);
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
}

void add_supervision(CLI::App& command, TrainOptions& options) {
  command
      .add_option("--restarts", options.restarts,
                  "Start again from the last checkpoint when ranks die")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->group(kRunGroup);
  command
      .add_option("--launcher", options.launcher,
                  "What starts the ranks, as \"mpirun --hostfile FILE\"")
      ->type_name("WORDS")
      ->group(kAlso);
  command
      .add_option("--min-workers", options.min_workers,
                  "Go on without ranks that were lost, with at least so many")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->group(kAlso);
  command.add_flag("--supervised", options.supervised)->group("");
}

void check_supervision(const TrainOptions& options) {
  if (options.min_workers && !options.restarts)
    throw ConfigError("--min-workers needs --restarts N.");
  if (!options.wants_supervisor()) return;
  if (under_launcher())
    throw ConfigError(
        "--restarts and --launcher start the ranks, so they cannot be given to the ranks "
        "of a "
        "launcher: `topknot train ... --workers 8 --restarts 3 --launcher mpirun`.");
  if (options.restarts.value_or(0) > 0 && options.out.empty())
    throw ConfigError("--restarts needs --out DIR, the folder of the run.");
  if (options.restarts.value_or(0) > 0 && !options.record.file.empty())
    throw ConfigError(
        "--record-gradients writes steps of one attempt, so it cannot be with "
        "--restarts.");
}

}  // namespace

void TrainOptions::add_to(CLI::App& command) {
  command
      .add_option("JOB", job,
                  "A TOML file, or a name of `topknot list jobs` (default quickstart)")
      ->type_name("JOB");
  settings.add_to(command);
  add_run(command, *this);
  record.add_to(command);
  add_supervision(command, *this);
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
  check_supervision(*this);
  settings.check();
  if (!out.empty()) return;
  for (const auto& [given, name] : {std::pair(resume, "--resume"),
                                    {overwrite, "--overwrite"},
                                    {tensorboard, "--tensorboard"},
                                    {trace, "--trace"},
                                    {analyze, "--analyze"}})
    if (given)
      throw ConfigError(fmt::format("{} needs --out DIR, the folder of the run.", name));
}

FolderUse TrainOptions::use() const {
  return resume ? FolderUse::resume : overwrite ? FolderUse::overwrite : FolderUse::fresh;
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

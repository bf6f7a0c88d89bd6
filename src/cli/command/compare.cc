// SPDX-License-Identifier: Apache-2.0
//
// compare: one job trained by several schemes, densities and seeds; a table and a page of them.
//
// Every combination is a run in a folder of its own. One that is done is not trained again and
// one that was interrupted is resumed, so a comparison can be stopped at any time and started again
// by the same command. Rank 0 looks at the folders and tells the others.
#include <fmt/core.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch_script.h"
#include "cli/combinations.h"
#include "cli/command/job_settings.h"
#include "cli/command/train.h"
#include "cli/commands.h"
#include "cli/comparison_table.h"
#include "cli/help.h"
#include "cli/illegal_instruction.h"
#include "cli/job_file.h"
#include "cli/launch.h"
#include "cli/launcher.h"
#include "cli/numbers.h"
#include "cli/report/write.h"
#include "cli/stop_signal.h"
#include "topknot/error.h"
#include "transports/control_channel.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string job = "quickstart";
  Choices choices;
  JobSettings settings;
  std::string interface;
  fs::path out;
  std::optional<double> target;
  std::optional<std::size_t> only;  // counted from 1
  BatchFlags batch;
  bool list = false;
  bool trace = false;
  bool analyze = false;
  bool json = false;
};

std::vector<Combination> combinations_of(const Options& options) {
  train::Job job;
  job.threads = 0;  // unless somebody sets it
  read_job(find_job(options.job, jobs_folder()), job);
  read_environment(job);
  options.settings.check();
  options.settings.apply_to(job);
  if (job.threads == 0) job.threads = granted_threads().count;
  return combine(job, options.choices);
}

const char* word_for(RunState state) {
  switch (state) {
    case RunState::absent:
      return "to do";
    case RunState::interrupted:
      return "interrupted";
    case RunState::done:
      return "done";
  }
  return "";
}

void print_list(const Options& options, const std::vector<Combination>& all) {
  for (std::size_t i = 0; i < all.size(); ++i)
    fmt::print("{:>3}  {:<28}  {}\n", i + 1, all[i].name,
               word_for(state_of(options.out / all[i].name, all[i].job)));
}

/// What rank 0 has decided about a combination.
enum class Todo : std::uint8_t { nothing, begin, resume, leave };

RunState look(const Transport& link, const Combination& one, const fs::path& folder) {
  train::Job job = one.job;
  job.workers = link.size();
  return state_of(folder, job);
}

Todo decide(const Transport& link, const Combination& one, const fs::path& folder,
            std::size_t number, std::size_t count) {
  if (stop_was_asked()) return Todo::leave;
  const RunState state = look(link, one, folder);
  fmt::print(stderr, "{}/{} {}: {}\n", number, count, one.name,
             state == RunState::done          ? "done before"
             : state == RunState::interrupted ? "continues"
                                              : "begins");
  return state == RunState::done          ? Todo::nothing
         : state == RunState::interrupted ? Todo::resume
                                          : Todo::begin;
}

/// Trains what is not done yet. Returns kPreempted where it was asked to stop.
int train_all(Transport& world, const Options& options,
              const std::vector<Combination>& all) {
  constexpr int kPlanChannel = 2000;
  ControlChannel control(world, kPlanChannel);
  if (world.rank() == 0 && under_launcher())
    fmt::print(stderr, "{}\n",
               describe_place(world, static_cast<int>(all.front().job.threads)));
  if (world.rank() == 0)  // what cannot be is refused before hours of training
    for (const Combination& one : all) look(world, one, options.out / one.name);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (options.only && *options.only != i + 1) continue;
    const fs::path folder = options.out / all[i].name;
    Todo todo = Todo::nothing;
    if (world.rank() == 0) todo = decide(world, all[i], folder, i + 1, all.size());
    todo =
        control.value_in<Todo>(control.broadcast(0, ControlChannel::bytes_of(todo)), 0);
    if (todo == Todo::leave) return kPreempted;
    if (todo == Todo::nothing) continue;
    // Messages of one training cannot meet those of the next.
    const auto link = world.channel(kPlanChannel + 1 + static_cast<int>(i));
    const int code = train_quietly(
        *link, {.job = all[i].job,
                .out = folder.string(),
                .use = todo == Todo::resume ? FolderUse::resume : FolderUse::overwrite,
                .trace = options.trace,
                .analyze = options.analyze});
    // That a scheme diverges is a result of the comparison.
    if (code != kDone && code != kNotFinite) return code;
  }
  return kDone;
}

void print_results(const Options& options, const std::vector<Combination>& all) {
  std::vector<RunData> runs;
  for (const Combination& one : all)
    if (fs::exists(options.out / one.name / "result.json"))
      runs.push_back(read_run(options.out / one.name));
  if (options.json)
    fmt::print("{}\n", comparison_json(runs, options.target).dump());
  else
    fmt::print("\n{}\n", comparison_table(runs, options.target));
  if (options.only) return;
  ReportOptions report;
  report.page = options.out / "report.html";
  report.target = options.target;
  report.to = options.json ? stderr : stdout;
  write_report(runs, report);
}

// What a script has in variables, or is not for the ranks.
constexpr std::string_view kNotInScripts[] = {
    "JOB",       "--scheme", "--data",         "--out",
    "--workers", "--list",   "--print-sbatch", "--print-pbs"};

void print_script(const CLI::App& command, const Options& options) {
  const train::Job job = combinations_of(options).front().job;
  const BatchScript script =
      comparison_script(job, options.job, options.choices.schemes,
                        given_words(command, kNotInScripts), options.out.string());
  fmt::print("{}", to_text(script, options.batch.scheduler()));
}

int run(const Options& options) {
  const std::vector<Combination> all = combinations_of(options);
  if (options.only && (*options.only < 1 || *options.only > all.size()))
    throw ConfigError(
        fmt::format("--only {} is none of the {} combinations; --list shows them.",
                    *options.only, all.size()));
  if (options.list) {
    print_list(options, all);
    return kDone;
  }
  require_trainer();
  explain_illegal_instructions();
  listen_for_stop();
  Launch launch;
  launch.workers = options.settings.workers();
  launch.link.timeout = all.front().job.timeout;
  launch.interface = options.interface;
  launch.flight = options.out.string();
  std::atomic<int> exit_code = kDone;
  std::atomic<bool> first = false;  // whether rank 0 is in this process
  run_ranks(launch, static_cast<int>(all.front().job.workers), [&](Transport& world) {
    exit_code = train_all(world, options, all);
    if (world.rank() == 0) first = true;
  });
  if (!first) return exit_code;
  if (exit_code == kPreempted)
    fmt::print(
        stderr,
        "topknot: Asked to stop, the comparison saved what it had; the same command "
        "continues it.\n");
  if (exit_code == kDone) print_results(options, all);
  return exit_code;
}

// A comparison has several of them, and parts of its own would make all schemes the same.
constexpr std::string_view kNotSettings[] = {"scheme", "density", "compressor",
                                             "collective", "memory"};

void add_options(CLI::App& command, Options& options) {
  command.add_option("JOB", options.job, "A TOML file, or a name of `topknot list jobs`")
      ->type_name("JOB")
      ->capture_default_str();
  command
      .add_option_function<std::vector<std::string>>(
          "--scheme",
          [&options](const std::vector<std::string>& words) {
            for (const std::string& word : words)
              for (std::string& one : split_specs(word))
                options.choices.schemes.push_back(std::move(one));
          },
          "Schemes, as dense,knot:values=bf16,oktopk")
      ->type_name("SCHEME")
      ->required();
  command
      .add_option("--density", options.choices.densities,
                  "Densities, as 0.01,0.001; else the job's or the scheme's own")
      ->delimiter(',');
  command.add_option("--seeds", options.choices.seeds, "So many seeds of each")
      ->capture_default_str();
  command.add_option("--out", options.out, "Folder for the runs and the page")
      ->type_name("DIR")
      ->required();
  command.add_option("--target", options.target,
                     "A value of the metric: adds the time and the bytes to reach it");
  add_interface(command, options.interface);
  command.add_flag("--trace", options.trace, "Leave trace.json in each run's folder");
  command
      .add_option("--only", options.only,
                  "Train only the K-th combination of --list, as one task of an array")
      ->type_name("K");
  options.batch.add_to(command);
  options.settings.add_to(command, kNotSettings);
  command.add_flag("--analyze", options.analyze,
                   "Also record threshold and residual of each step");
  command.add_flag("--list", options.list, "Only list the combinations and what is done");
  command.add_flag("--json", options.json, "Print the table as one line of JSON");
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare", "Train a job by several schemes and compare; docs/compare.md");
  add_options(*command, *options);
  add_examples(
      *command, "compare quickstart --scheme dense,knot,oktopk --out runs/schemes",
      "compare --scheme knot --density 0.01,0.001 --seeds 3 --out runs/densities");
  command->callback([options, command, &exit_code] {
    if (options->batch.any()) return print_script(*command, *options);
    exit_code = run(*options);
  });
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
//
// train: one job, from its file to its summary. The training itself is train/'s, and only
// where there is torch; all else that the command does it does without.
#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/chrome_trace.h"
#include "cli/commands.h"
#include "cli/illegal_instruction.h"
#include "cli/job_file.h"
#include "cli/launch.h"
#include "cli/leave_signal.h"
#include "cli/record_options.h"
#include "cli/run_log.h"
#include "store/gradients.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

struct Options {
  std::string job = "quickstart";
  std::vector<std::string> settings;  // key=value, those with a flag of their own last
  std::vector<std::string> flags;
  std::string out;
  RecordFlags record;
  bool resume = false;
  bool overwrite = false;
  bool json = false;
  bool tensorboard = false;
  bool trace = false;
  bool list = false;
  bool keys = false;
};

void print_jobs() {
  for (const NamedJob& job : list_jobs(jobs_folder()))
    fmt::print("{:<22}{}\n", job.name, job.summary);
}

void print_keys() {
  const train::Job defaults;
  for (const train::Key& key : train::keys()) {
    const std::string value = train::get(defaults, key.name);
    fmt::print("{:<18}{}\n{:<18}{}; default {}\n", key.name, key.meaning, "", key.range,
               value.empty() ? "empty" : value);
  }
}

#ifdef TOPKNOT_HAVE_TORCH

#ifdef TOPKNOT_TORCH_VERSION
constexpr const char* kTorchVersion = TOPKNOT_TORCH_VERSION;
#else
constexpr const char* kTorchVersion = "";
#endif

/// The job as everybody has had a say in it, and the workers that the command line wants.
struct Plan {
  train::Job job;
  std::optional<int> workers;
};

Plan make_plan(const Options& options) {
  Plan plan;
  read_job(find_job(options.job, jobs_folder()), plan.job);
  read_environment(plan.job);
  std::vector<std::string> all = options.settings;
  all.insert(all.end(), options.flags.begin(), options.flags.end());
  for (const std::string& setting : all) {
    apply_setting(plan.job, setting);
    if (setting.starts_with("workers="))
      plan.workers = static_cast<int>(plan.job.workers);
  }
  return plan;
}

void check_flags(const Options& options) {
  if (options.resume && options.overwrite)
    throw ConfigError(
        "--resume goes on with a run and --overwrite replaces it; give one.");
  if (!options.out.empty()) return;
  for (const auto& [given, name] : {std::pair(options.resume, "--resume"),
                                    {options.overwrite, "--overwrite"},
                                    {options.tensorboard, "--tensorboard"},
                                    {options.trace, "--trace"}})
    if (given)
      throw ConfigError(fmt::format("{} needs --out DIR, the folder of the run.", name));
}

/// What one rank hears: the log on rank 0 and the trace on all.
class Ears final : public train::Observer {
 public:
  Ears(RunLog* log, TraceSpans* trace) : log_(log), trace_(trace) {}
  void on_start(const train::Start& start) override {
    if (log_ != nullptr) log_->on_start(start);
  }
  void on_step(const train::StepRecord& record) override {
    if (log_ != nullptr) log_->on_step(record);
    if (trace_ != nullptr) trace_->add(record);
  }
  void on_epoch(const train::EpochRecord& record) override {
    if (log_ != nullptr) log_->on_epoch(record);
  }
  void on_checkpoint(std::uint64_t step, double seconds) override {
    if (log_ != nullptr) log_->on_checkpoint(step, seconds);
  }
  void on_checkpoint_failed(const std::string& sentence) override {
    if (log_ != nullptr) log_->on_checkpoint_failed(sentence);
  }
  bool asked_to_leave() override { return leave_was_asked(); }

 private:
  RunLog* log_;
  TraceSpans* trace_;
};

/// Rank 0 does `work`; what it throws ends the others without a word of their own. Returns
/// whether this rank is to go on.
template <typename Work>
bool first_on_rank_0(Transport& link, const Work& work) {
  const auto tell = [&](std::byte word) {
    for (int rank = 1; rank < link.size(); ++rank) link.wait(link.send(rank, {&word, 1}));
  };
  if (link.rank() != 0) {
    std::vector<std::byte> word;
    link.wait(link.recv(0, word, 1));
    return !word.empty() && word[0] == std::byte{1};
  }
  try {
    work();
  } catch (...) {
    tell(std::byte{0});
    throw;
  }
  tell(std::byte{1});
  return true;
}

FolderUse use_of(const Options& options) {
  return options.resume      ? FolderUse::resume
         : options.overwrite ? FolderUse::overwrite
                             : FolderUse::fresh;
}

void print_end(const Options& options, const train::Job& job, const RunLog& log,
               const train::Outcome& outcome) {
  const int workers = static_cast<int>(job.workers);
  if (options.json) {
    fmt::print("{}\n", to_json(job, workers, outcome)
                           .dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("\n{}", log.summary(outcome));
  }
  std::fflush(stdout);
  if (const std::string said = about_record(options.record, outcome); !said.empty())
    fmt::print(stderr, "topknot: {}\n", said);
  if (!outcome.left_early) return;
  fmt::print(
      stderr,
      "topknot: Asked to leave, the run saved itself after step {}; `topknot train "
      "{} --out {} --resume` goes on with it.\n",
      outcome.steps, options.job, options.out);
}

/// One rank's part, from the first word to the last. Returns the exit code.
int run_rank(Transport& world, const Options& options, train::Job job, bool processes) {
  constexpr int kOwnChannel = 1000;  // far from those that the trainer takes
  const auto link = world.channel(kOwnChannel);
  job.workers = link->size();
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<RunLog> log;
  const bool sound = first_on_rank_0(*link, [&] {
    train::check(job);
    if (!options.record.file.empty())
      store::require_room_for(store::disk(), options.record.file);
    if (!options.out.empty())
      folder = std::make_unique<RunFolder>(options.out, use_of(options));
    log = std::make_unique<RunLog>(job,
                                   RunLogOptions{.workers = link->size(),
                                                 .launch = processes ? "mpi" : "threads",
                                                 .torch = kTorchVersion,
                                                 .folder = folder.get(),
                                                 .tensorboard = options.tensorboard});
  });
  if (!sound) return kBadUsage;
  TraceSpans spans;
  const ClockReading before = options.trace ? read_clock(*link) : ClockReading{};
  Ears ears(log.get(), options.trace ? &spans : nullptr);
  train::TrainOptions how;
  if (!options.out.empty()) how.checkpoints = checkpoints_in(options.out);
  how.resume = options.resume;
  how.record = options.record.options();
  const train::Outcome outcome = train::train(world, job, how, ears);
  if (options.trace) {
    const auto all = spans.gather(*link, before, read_clock(*link));
    if (folder) write_chrome_trace(folder->path() / "trace.json", all);
  }
  if (log) {
    log->finish(outcome);
    print_end(options, job, *log, outcome);
  }
  return outcome.left_early ? kPreempted : kDone;
}

int run(const Options& options) {
  check_flags(options);
  options.record.options();  // a bad list ends it before the work
  const Plan plan = make_plan(options);
  explain_illegal_instructions();
  // Without a folder there is nowhere to save to, and a signal ends the run as ever.
  if (!options.out.empty()) listen_for_leave();
  Launch launch;
  launch.workers = plan.workers;
  launch.link.timeout = plan.job.timeout;
  std::atomic<int> exit_code = kDone;
  run_ranks(launch, static_cast<int>(plan.job.workers), [&](Transport& link) {
    exit_code = run_rank(link, options, plan.job, under_launcher());
  });
  return exit_code;
}

#else

int run(const Options&) {
  throw ConfigError(
      "This topknot was built without torch, so it cannot train: install it (`pip "
      "install "
      "torch`, or let scripts/setup do so) and build again.");
}

#endif

/// A flag that stands for a key.
void add_key(CLI::App& command, Options& options, const std::string& flag,
             const std::string& key, const std::string& meaning) {
  command.add_option_function<std::string>(
      flag,
      [&options, key](const std::string& value) {
        options.flags.push_back(key + "=" + value);
      },
      meaning);
}

void add_options(CLI::App& command, Options& options) {
  command.add_option("JOB", options.job, "A TOML file, or a name of --list")
      ->capture_default_str();
  add_key(command, options, "--workers", "workers",
          "Ranks, as threads. Under mpirun, its own number");
  add_key(command, options, "--scheme", "scheme", "How gradients are exchanged");
  add_key(command, options, "--density", "density", "Share of them that is sent");
  add_key(command, options, "--data", "folder", "The folder of the data set");
  add_key(command, options, "--timeout", "timeout",
          "Seconds after which a silent rank ends the run");
  command.add_option("--set", options.settings, "key=value ...: any key of --keys");
  command.add_option("--out", options.out, "Folder for logs and checkpoints");
  command.add_flag("--resume", options.resume, "Go on with the run in --out");
  command.add_flag("--overwrite", options.overwrite, "Replace the run in --out");
  command.add_flag("--tensorboard", options.tensorboard, "Leave event files in --out");
  command.add_flag("--trace", options.trace, "Leave trace.json in --out, for Perfetto");
  options.record.add_to(command);
  command.add_flag("--json", options.json, "End with one line of JSON");
  command.add_flag("--list", options.list, "Only list the jobs that have names");
  command.add_flag("--keys", options.keys, "Only list the keys of a job");
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a job, on threads or under mpirun; docs/train.md has it all");
  add_options(*command, *options);
  command->callback([options, &exit_code] {
    if (options->list) return print_jobs();
    if (options->keys) return print_keys();
    exit_code = run(*options);
  });
}

}  // namespace topknot::cli

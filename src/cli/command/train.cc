// SPDX-License-Identifier: Apache-2.0
//
// train: one job, from its file to its summary. The training itself is in train/ and needs
// torch; --list and --keys work without it.
#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/chrome_trace.h"
#include "cli/commands.h"
#include "cli/illegal_instruction.h"
#include "cli/job_file.h"
#include "cli/launch.h"
#include "cli/machine.h"
#include "cli/record_options.h"
#include "cli/run_log.h"
#include "cli/stop_signal.h"
#include "job/comparison.h"
#include "store/gradients.h"
#include "topknot/error.h"
#include "transports/control_channel.h"

namespace topknot::cli {
namespace {

struct Options {
  std::string job = "quickstart";
  std::vector<std::string> settings;  // key=value, those with a flag of their own last
  std::vector<std::string> flags;
  std::vector<std::string> key_flags;  // those that stand for keys
  train::Fields same;                  // flags that must be the same on all ranks
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

/// The job from file, environment and flags, and the workers that the command line wants.
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
    throw ConfigError("--resume continues a run and --overwrite replaces it; give one.");
  if (!options.out.empty()) return;
  for (const auto& [given, name] : {std::pair(options.resume, "--resume"),
                                    {options.overwrite, "--overwrite"},
                                    {options.tensorboard, "--tensorboard"},
                                    {options.trace, "--trace"}})
    if (given)
      throw ConfigError(fmt::format("{} needs --out DIR, the folder of the run.", name));
}

/// Passes a rank's events on: to the log on rank 0, to the trace on all.
class FanoutObserver final : public train::Observer {
 public:
  FanoutObserver(RunLog* log, TraceSpans* trace) : log_(log), trace_(trace) {}
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
  bool asked_to_stop() override { return stop_was_asked(); }

 private:
  RunLog* log_;
  TraceSpans* trace_;
};

/// Rank 0 does `work`. Where that throws, the other ranks say nothing of it. Returns whether
/// this rank is to continue.
bool first_on_rank_0(Transport& link, const std::function<void()>& work) {
  std::exception_ptr failure;
  if (link.rank() == 0) try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  ControlChannel control(link);
  const std::uint8_t ok = failure ? 0 : 1;
  const auto told = control.broadcast(0, ControlChannel::bytes_of(ok));
  if (failure) std::rethrow_exception(failure);
  return control.value_in<std::uint8_t>(told, 0) == 1;
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
  if (!outcome.stopped_early) return;
  fmt::print(
      stderr,
      "topknot: Asked to stop, the run saved a checkpoint after step {}; `topknot train "
      "{} --out {} --resume` continues it.\n",
      outcome.steps, options.job, options.out);
}

/// All ranks have the same sentences: rank 0 prints them.
int complain_once(const Transport& link, const std::vector<std::string>& sentences,
                  int exit_code) {
  std::string text;
  for (const std::string& sentence : sentences) text += "topknot: " + sentence + "\n";
  if (link.rank() == 0) fmt::print(stderr, "{}", text);
  return exit_code;
}

/// Before anything is read, written or sent.
void require_equal_start(Transport& world, const Options& options,
                         const train::Job& job) {
  train::Fields fields = train::fields_of(job);
  fields.push_back({"version of topknot", TOPKNOT_VERSION});
  fields.push_back({"commit of topknot", built_from()});
  fields.insert(fields.end(), options.same.begin(), options.same.end());
  constexpr int kChannel = 1001;  // far from those that the trainer takes
  train::Comparison(world, kChannel).require_equal(fields);
}

/// One rank's part, from start to end. Returns the exit code.
int train_rank(Transport& world, const Options& options, train::Job job, bool processes) {
  constexpr int kOwnChannel = 1000;
  const auto link = world.channel(kOwnChannel);
  job.workers = link->size();
  require_equal_start(world, options, job);
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<RunLog> log;
  const bool ok = first_on_rank_0(*link, [&] {
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
  if (!ok) return kBadUsage;
  TraceSpans spans;
  const ClockReading before = options.trace ? read_clock(*link) : ClockReading{};
  FanoutObserver observers(log.get(), options.trace ? &spans : nullptr);
  train::TrainOptions how;
  if (!options.out.empty()) how.checkpoints = checkpoints_in(options.out);
  how.resume = options.resume;
  how.record = options.record.options();
  const train::Outcome outcome = train::train(world, job, how, observers);
  if (options.trace) {
    const auto all = spans.gather(*link, before, read_clock(*link));
    if (folder) write_chrome_trace(folder->path() / "trace.json", all);
  }
  if (log) {
    log->finish(outcome);
    print_end(options, job, *log, outcome);
  }
  if (!outcome.not_finite.empty())
    return complain_once(world, {outcome.not_finite}, kNotFinite);
  return outcome.stopped_early ? kPreempted : kDone;
}

int run_rank(Transport& world, const Options& options, const train::Job& job,
             bool processes) {
  try {
    return train_rank(world, options, job, processes);
  } catch (const train::StartedUnlikeError& error) {
    return complain_once(world, error.sentences(), kRanksDisagree);
  } catch (const train::DriftError& error) {
    return complain_once(world, error.sentences(), kBug);
  }
}

int run(const Options& options) {
  check_flags(options);
  options.record.options();  // throws for a bad list before the work
  const Plan plan = make_plan(options);
  explain_illegal_instructions();
  // Without a folder there is nowhere to save to, and a signal ends the process.
  if (!options.out.empty()) listen_for_stop();
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
      "install torch`, or let scripts/setup do so) and build again.");
}

#endif

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
    {"--json", Compared::no},                 // rank 0 alone prints
    {"--tensorboard", Compared::no},          // and leaves these
    {"--out", Compared::given},               // hosts may have it under different paths
    {"--record-gradients", Compared::given},  // likewise
};

Compared compared(const std::string& name, const std::vector<std::string>& of_keys) {
  for (const std::string& flag : of_keys)
    if (flag == name) return Compared::no;
  for (const FlagRule& rule : kFlagRules)
    if (rule.name == name) return rule.how;
  return Compared::value;
}

/// What the ranks must have been given alike, out of all that the command takes.
train::Fields fields_of(const CLI::App& command, const Options& options) {
  train::Fields fields;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const Compared how = compared(name, options.key_flags);
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

/// A flag that stands for a key.
void add_key(CLI::App& command, Options& options, const std::string& flag,
             const std::string& key, const std::string& meaning) {
  options.key_flags.push_back(flag);
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
  add_key(command, options, "--scheme", "scheme", "How the workers agree on a sum");
  add_key(command, options, "--budget", "budget", "Bytes sent, as a share of dense's");
  add_key(command, options, "--density", "density",
          "Share of the coordinates that an exchange sends");
  add_key(command, options, "--data", "folder", "The folder of the data set");
  add_key(command, options, "--timeout", "timeout",
          "Seconds after which a silent rank ends the run");
  add_key(command, options, "--nonfinite", "nonfinite",
          "What a step that is not finite does: abort the run, or skip");
  command.add_option("--set", options.settings, "key=value ...: any key of --keys");
  command.add_option("--out", options.out, "Folder for logs and checkpoints");
  command.add_flag("--resume", options.resume, "Continue the run in --out");
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
      "train", "Train a job, on threads or under mpirun; docs/train.md has the details");
  add_options(*command, *options);
  command->callback([options, command, &exit_code] {
    if (options->list) return print_jobs();
    if (options->keys) return print_keys();
    options->same = fields_of(*command, *options);
    exit_code = run(*options);
  });
}

}  // namespace topknot::cli

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
#include <thread>
#include <vector>

#include "cli/batch_script.h"
#include "cli/chrome_trace.h"
#include "cli/command/dry_run.h"
#include "cli/command/job_plan.h"
#include "cli/command/supervised.h"
#include "cli/command/train.h"
#include "cli/command/train_options.h"
#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/help.h"
#include "cli/illegal_instruction.h"
#include "cli/job_file.h"
#include "cli/launch.h"
#include "cli/launcher.h"
#include "cli/machine.h"
#include "cli/rank_ends.h"
#include "cli/resume.h"
#include "cli/run_log.h"
#include "cli/stop_signal.h"
#include "cli/traffic_matrix.h"
#include "job/comparison.h"
#include "store/gradients.h"
#include "topknot/error.h"
#include "transports/control_channel.h"
#include "transports/watched.h"

namespace topknot::cli {
namespace {

using Options = TrainOptions;

void print_keys() {
  const train::Job defaults;
  for (const train::Key& key : train::keys()) {
    const std::string value = train::get(defaults, key.name);
    fmt::print("{:<20}{}\n{:<20}{}; default {}\n", key.name, key.meaning, "", key.range,
               value.empty() ? "empty" : value);
  }
}

// What a script has in variables, does by itself, or is not for the ranks.
constexpr std::string_view kNotInScripts[] = {
    "JOB",        "--data",      "--out",          "--workers",
    "--resume",   "--overwrite", "--print-sbatch", "--print-pbs",
    "--restarts", "--launcher",  "--min-workers"};

void print_script(const Options& options) {
  if (options.resume || options.overwrite)
    throw ConfigError(
        "The script resumes where its folder has a checkpoint, so leave out --resume and "
        "--overwrite.");
  const JobPlan plan = make_plan(options);
  train::check(plan.job);
  if (!options.launcher.empty() || options.min_workers)
    throw ConfigError(
        "The script has the variable LAUNCH, and as many ranks as its nodes: leave out "
        "--launcher and --min-workers.");
  const BatchScript script = training_script(
      plan.job, options.job.empty() ? "quickstart" : options.job, options.words,
      options.out, options.restarts.value_or(BatchScript().restarts));
  fmt::print("{}", to_text(script, options.batch.scheduler()));
}

#ifdef TOPKNOT_HAVE_TORCH

/// Passes a rank's events on: to the log on rank 0, to the trace on all.
class FanoutObserver final : public train::Observer {
 public:
  FanoutObserver(RunLog* log, TraceSpans* trace) : log_(log), trace_(trace) {}
  void on_activity(const train::Activity& activity) override {
    if (log_ != nullptr) log_->on_activity(activity);
  }
  void on_start(const train::Start& start) override {
    if (log_ != nullptr) log_->on_start(start);
  }
  void on_step(const train::StepRecord& record) override {
    if (log_ != nullptr) log_->on_step(record);
    if (trace_ != nullptr) trace_->add(record);
  }
  void on_settling(std::uint64_t steps, std::uint64_t sent_bytes) override {
    if (log_ != nullptr) log_->on_settling(steps, sent_bytes);
  }
  void on_epoch(const train::EpochRecord& record) override {
    if (log_ != nullptr) log_->on_epoch(record);
    if (trace_ != nullptr) trace_->add(record);
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

void print_end(const Options& options, const RunLog& log, const train::Outcome& outcome) {
  if (options.json) {
    fmt::print("{}\n",
               log.result(outcome).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("\n{}", log.summary(outcome));
  }
  std::fflush(stdout);
  if (const std::string said = about_record(options.record, outcome); !said.empty())
    fmt::print(stderr, "topknot: {}\n", said);
  if (!outcome.stopped_early) return;
  fmt::print(stderr,
             "topknot: Asked to stop, the run saved a checkpoint after step {}; `topknot "
             "train --resume --out {}` continues it.\n",
             outcome.steps, options.out);
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
  const auto waiting = std::make_shared<Waiting>();
  const bool ok = first_on_rank_0(*link, [&] {
    train::check(job);
    require_data(job);
    if (!options.record.file.empty())
      store::require_room_for(store::disk(), options.record.file);
    if (!options.out.empty())
      folder = std::make_unique<RunFolder>(options.out, options.use());
    log = std::make_unique<RunLog>(job,
                                   RunLogOptions{.workers = link->size(),
                                                 .launch = processes ? "mpi" : "threads",
                                                 .torch = train::torch_version(),
                                                 .folder = folder.get(),
                                                 .tensorboard = options.tensorboard,
                                                 .quiet = options.quiet,
                                                 .waiting = waiting});
  });
  if (!ok) return kBadUsage;
  if (log && processes && options.summary)
    fmt::print(stderr, "{}\n", describe_place(*link, static_cast<int>(job.threads)));
  TraceSpans spans;
  const ClockReading before = options.trace ? read_clock(*link) : ClockReading{};
  FanoutObserver observers(log.get(), options.trace ? &spans : nullptr);
  train::TrainOptions how;
  if (!options.out.empty()) how.checkpoints = checkpoints_in(options.out);
  how.resume = options.resume;
  how.details = options.trace || options.analyze;
  how.residual_every = options.analyze ? 1 : 0;
  how.record = options.record.options();
  const auto watched = make_watched(world, waiting);
  const train::Outcome outcome =
      train::train(*watched, with_data_found(job), how, observers);
  if (options.trace) {
    const auto all = spans.gather(*link, before, read_clock(*link));
    if (folder) write_chrome_trace(folder->path() / "trace.json", all);
  }
  const TrafficMatrix traffic =
      gather_traffic(*link, outcome.traffic, outcome.steps - outcome.first_step);
  if (log) {
    log->add_traffic(traffic);
    log->finish(outcome);
    if (options.summary) print_end(options, *log, outcome);
  }
  if (!outcome.not_finite.empty())
    return complain_once(world, {outcome.not_finite}, kNotFinite);
  return outcome.stopped_early ? kPreempted : kDone;
}

int run_rank(Transport& world, const Options& options, const train::Job& job,
             bool processes) {
  std::optional<RankEnd> end;
  if (options.supervised) end.emplace(options.out, world.rank());
  try {
    return train_rank(world, options, job, processes);
  } catch (const train::StartedUnlikeError& error) {
    return complain_once(world, error.sentences(), kRanksDisagree);
  } catch (const train::DriftError& error) {
    return complain_once(world, error.sentences(), kBug);
  } catch (const LinkError& error) {
    if (end && error.peer() != world.rank()) end->name_lost(error.peer());
    throw;
  }
}

/// Where many workers are to be threads, whether there is room for them, before they are made.
void look_for_room(const train::Job& job) {
  const auto cores = std::max(std::thread::hardware_concurrency(), 1U);
  if (under_launcher() || job.workers <= 8 * cores) return;
  train::check(job);
  require_data(job);
  check_room(static_cast<int>(job.workers), worker_bytes(plan_alone(job)));
}

/// Of a run that has ended, instead of training. Returns whether there is one.
bool has_finished(const Options& options, const train::Job& job) {
  if (!options.resume) return false;
  const auto result = finished_result(options.out, job);
  if (!result) return false;
  if (options.json && is_first_process()) fmt::print("{}\n", result->dump());
  if (is_first_process())
    fmt::print(stderr,
               "topknot: The run in {} has ended after {} steps, so there is nothing to "
               "resume; more epochs or steps would continue it.\n",
               options.out, (*result)["steps"].get<std::uint64_t>());
  return true;
}

int run(const Options& options) {
  options.check();
  options.record.options();  // throws for a bad list before the work
  const JobPlan plan = make_plan(options);
  if (options.dry_run) {
    print_dry_run(plan.job, options.json);
    return kDone;
  }
  if (options.wants_supervisor()) return train_supervised(options, plan.job);
  if (has_finished(options, plan.job)) return kDone;
  look_for_room(plan.job);
  if (is_first_process() && !options.quiet)
    for (const std::string& notice : plan.notices) fmt::print(stderr, "{}\n", notice);
  explain_illegal_instructions();
  // Without a folder there is nowhere to save to, and a signal ends the process.
  if (!options.out.empty()) listen_for_stop();
  Launch launch;
  launch.workers = plan.workers;
  launch.link.timeout = plan.job.timeout;
  launch.interface = options.interface;
  launch.flight = options.out;
  std::atomic<int> exit_code = kDone;
  run_ranks(launch, static_cast<int>(plan.job.workers), [&](Transport& link) {
    exit_code = run_rank(link, options, plan.job, under_launcher());
  });
  return exit_code;
}

#else

int run(const Options&) {
  require_trainer();
  return kBadUsage;
}

#endif

}  // namespace

#ifdef TOPKNOT_HAVE_TORCH

void require_trainer() {}

int train_quietly(Transport& world, const TrainRequest& request) {
  Options options;
  options.out = request.out;
  options.resume = request.use == FolderUse::resume;
  options.overwrite = request.use == FolderUse::overwrite;
  options.trace = request.trace;
  options.analyze = request.analyze;
  options.summary = false;
  return run_rank(world, options, request.job, under_launcher());
}

#else

void require_trainer() {
  throw ConfigError(
      "This topknot was built without torch, so it cannot train: install it (`pip "
      "install torch`, or let scripts/setup do so) and build again.");
}

int train_quietly(Transport&, const TrainRequest&) {
  require_trainer();
  return kBadUsage;
}

#endif

void add_train(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a job, on threads or under mpirun; docs/train.md has the details");
  options->add_to(*command);
  add_examples(*command, "train quickstart --epochs 1 --scheme oktopk --out runs/oktopk",
               "train --resume --out runs/oktopk");
  command->callback([options, command, &exit_code] {
    if (options->list) return list_kind("jobs");
    if (options->keys) return print_keys();
    if (options->batch.any()) {
      options->words = given_words(*command, kNotInScripts);
      return print_script(*options);
    }
    options->same = compared_flags(*command);
    options->for_ranks = words_for_ranks(*command);
    exit_code = run(*options);
  });
}

}  // namespace topknot::cli

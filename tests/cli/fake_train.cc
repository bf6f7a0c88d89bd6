// SPDX-License-Identifier: Apache-2.0
//
// A trainer that trains nothing, for the tests of the command: it takes its steps, reports as
// a trainer does, saves and resumes. All it reports but the times follows from the step.
// FAKE_SLOW is how many seconds loading, a part of an evaluation and rank 1's fifth step take,
// FAKE_PARAMETERS the size of the model,
// FAKE_STEP_MS is how long a step takes, FAKE_SIGILL has one use an instruction that the processor
// does not have; the folder "missing" has no data; at a learning rate of 1e38 only the first step
// is finite.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "job/comparison.h"
#include "job/engine_options.h"
#include "topknot/error.h"
#include "train/compute_time.h"
#include "train/train.h"

namespace topknot::train {
namespace {

constexpr std::uint64_t kStepsPerEpoch = 10;

std::uint64_t parameters() {
  const char* const given = std::getenv("FAKE_PARAMETERS");
  return given == nullptr ? 1000 : std::strtoull(given, nullptr, 10);
}

void dawdle() {
  const char* const seconds = std::getenv("FAKE_SLOW");
  if (seconds != nullptr)
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
}

/// Whether `mine` is true on any rank; the same on all.
bool any_of_all(Transport& link, bool mine) {
  std::vector<std::byte> word;
  bool any = mine;
  if (link.rank() == 0) {
    for (int rank = 1; rank < link.size(); ++rank) {
      link.wait(link.recv(rank, word, 1));
      any = any || word.at(0) == std::byte{1};
    }
    const std::byte said{any};
    for (int rank = 1; rank < link.size(); ++rank) link.wait(link.send(rank, {&said, 1}));
    return any;
  }
  const std::byte said{mine};
  link.wait(link.send(0, {&said, 1}));
  link.wait(link.recv(0, word, 1));
  return word.at(0) == std::byte{1};
}

/// Of the newest checkpoint, which has nothing but its step.
std::uint64_t load(const std::filesystem::path& folder) {
  std::optional<std::uint64_t> newest;
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream file(entry.path() / "manifest");
      std::uint64_t step = 0;
      if (file >> step) newest = std::max(newest.value_or(0), step);
    }
  if (!newest) throw NoCheckpointError("There is no usable checkpoint to resume from.");
  return *newest;
}

void save(Transport& link, const std::filesystem::path& folder, std::uint64_t step,
          Observer& observer) {
  if (folder.empty()) return;
  if (link.rank() == 0) {
    const auto path = folder / ("step-" + std::to_string(step));
    std::filesystem::create_directories(path);
    std::ofstream(path / "manifest") << step;
  }
  any_of_all(link, false);
  observer.on_checkpoint(step, 0.001);
}

StepRecord take_step(Transport& link, const Job& job, std::uint64_t step, bool details) {
  StepRecord record;
  record.report.start = link.now();
  const char* const pause = std::getenv("FAKE_STEP_MS");
  if (pause != nullptr)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(pause)));
  if (std::getenv("FAKE_SIGILL") != nullptr) std::raise(SIGILL);
  record.step = record.report.step = step;
  record.epoch = step / kStepsPerEpoch;
  record.loss = 2.0 / static_cast<double>(step + 1);
  record.lr = job.lr;
  record.finite = record.report.finite = job.lr < 1e38 ? step != 3 : step == 0;
  record.samples = static_cast<std::uint64_t>(job.batch * link.size());
  record.sent_bytes = record.report.sent_bytes = 100 + step;
  record.report.k_wanted = record.report.count = parameters() / 10;
  record.report.k_selected = parameters() / 20;
  record.seconds = 0.010;
  record.compute_seconds = 0.006;
  record.report.seconds = 0.009;
  record.data_seconds = 0.001;
  record.forward_seconds = 0.002;
  record.backward_seconds = 0.003;
  record.optimizer_seconds = 0.0005;
  record.agree_seconds = 0.0005;
  record.report.exposed_seconds = 0.002;
  record.report.encode_seconds = 0.0004;
  record.report.decode_seconds = 0.0003;
  record.report.busy_seconds = 0.005;
  record.report.select_seconds = 0.001;
  record.report.wait_seconds = 0.003;
  record.report.overlap = 0.6;
  for (const double at : {0.003, 0.006}) {
    StepTrace bucket;
    bucket.start = record.report.start + at;
    bucket.seconds = 0.002;
    bucket.sent_bytes = 50;
    if (details)
      bucket.spans = {
          {Phase::select, -1, bucket.start, 0.0005},
          {Phase::wait, (link.rank() + 1) % link.size(), bucket.start + 0.0005, 0.0015}};
    record.report.buckets.push_back(bucket);
  }
  return record;
}

/// A ring: all to the next rank, and from the one before it all waits.
Traffic make_traffic(const Transport& link, std::uint64_t steps) {
  Traffic traffic;
  const auto ranks = static_cast<std::size_t>(link.size());
  traffic.bytes_to.resize(ranks);
  traffic.messages_to.resize(ranks);
  traffic.wait_seconds_for.resize(ranks);
  const auto rank = static_cast<std::size_t>(link.rank());
  traffic.bytes_to[(rank + 1) % ranks] = 100 * (rank + 1) * steps;
  traffic.messages_to[(rank + 1) % ranks] = 2 * steps;
  traffic.wait_seconds_for[(rank + ranks - 1) % ranks] =
      0.001 * static_cast<double>(steps);
  return traffic;
}

EpochRecord end_epoch(const Job& job, std::uint64_t taken) {
  EpochRecord record;
  record.epoch = taken / kStepsPerEpoch - 1;
  record.step = taken;
  record.train_loss = 2.0 / static_cast<double>(taken);
  record.evaluated = true;
  record.test_loss = 2.5 / static_cast<double>(taken);
  record.metric = {"accuracy", 1 - 1.0 / static_cast<double>(taken)};
  record.seconds = 0.1;
  record.evaluation_seconds = 0.002;
  record.lr = job.lr;
  return record;
}

Start make_start(Transport& link, const Job& job, std::uint64_t first) {
  Start start;
  start.job = prepared(job, start.notices);
  start.parameters = parameters();
  start.train_samples = 640;
  start.test_samples = 100;
  start.data_fingerprint = job.data == "generated:size=640" ? "0640" : "other";
  start.steps_per_epoch = kStepsPerEpoch;
  start.steps = job.steps > 0 ? static_cast<std::uint64_t>(job.steps)
                              : static_cast<std::uint64_t>(job.epochs) * kStepsPerEpoch;
  start.first_step = first;
  const auto ranks = static_cast<std::uint64_t>(link.size());
  start.dense_bytes = 8 * parameters() * (ranks - 1) / ranks;
  start.buckets = {Layout::flat(600), Layout::flat(400)};
  start.gradient_bytes = 4 * parameters();
  start.engine_bytes = 4 * parameters();
  return start;
}

/// Whether the run is over before its end.
bool judge(const Job& job, const StepRecord& record, std::uint64_t planned,
           Outcome& outcome) {
  if (record.finite) return false;
  if (job.nonfinite == "abort") outcome.not_finite = "Step 1 is not finite.";
  const double limit = job.skip_limit * static_cast<double>(planned);
  if (static_cast<double>(outcome.skipped_steps) > limit)
    outcome.not_finite = std::to_string(outcome.skipped_steps) + " steps were skipped.";
  return !outcome.not_finite.empty();
}

}  // namespace

std::string torch_version() { return "none, this trainer trains nothing"; }

double compute_time(Transport&, const Job&) { return 0.25; }

Start plan(Transport& link, const Job& job, Observer& observer) {
  observer.on_activity({.what = "loading " + job.data});
  return make_start(link, job, 0);
}

Outcome train(Transport& link, const Job& job, const TrainOptions& options,
              Observer& observer) {
  Comparison(link, 4).require_equal(fields_of(job));
  if (job.folder == "missing")
    throw DataError("The folder missing has no Fashion-MNIST in it.");
  observer.on_activity({.what = "loading " + job.data});
  dawdle();
  const std::uint64_t first = options.resume ? load(options.checkpoints) : 0;
  const Start start = make_start(link, job, first);
  if (first > start.steps)
    throw ConfigError("The checkpoint was made after step " + std::to_string(first) +
                      " and the job ends after " + std::to_string(start.steps) + ".");
  observer.on_start(start);
  Outcome outcome;
  double sent = 0;
  std::uint64_t applied = 0;
  std::uint64_t taken = first;
  while (taken < start.steps && !outcome.stopped_early) {
    StepRecord record = take_step(link, job, taken++, options.details);
    outcome.skipped_steps += record.finite ? 0 : 1;
    if (options.residual_every > 0) {
      record.residual_norm = 3;
      record.report.threshold = 0.25;
    }
    applied += record.finite ? 1 : 0;
    sent += static_cast<double>(record.sent_bytes);
    if (taken == 5 && link.rank() == 1) dawdle();
    any_of_all(link, false);
    observer.on_step(record);
    if (job.lr >= 1e38 && judge(job, record, start.steps, outcome)) break;
    if (taken % kStepsPerEpoch == 0) {
      observer.on_activity(
          {.what = "evaluating", .done = 50, .total = start.test_samples});
      dawdle();
      const EpochRecord epoch = end_epoch(job, taken);
      outcome.metric = epoch.metric;
      observer.on_epoch(epoch);
      save(link, options.checkpoints, taken, observer);
    }
    outcome.stopped_early =
        any_of_all(link, observer.asked_to_stop()) && taken < start.steps;
  }
  if (outcome.stopped_early) save(link, options.checkpoints, taken, observer);
  outcome.steps = taken;
  outcome.first_step = first;
  outcome.traffic = make_traffic(link, taken - first);
  outcome.epochs = taken / kStepsPerEpoch;
  outcome.seconds = 0.01 * static_cast<double>(taken - first);
  outcome.sent_bytes_per_step =
      sent / static_cast<double>(std::max<std::uint64_t>(applied, 1));
  outcome.dense_bytes_per_step = static_cast<double>(start.dense_bytes);
  outcome.exposed_seconds_per_step = 0.002;
  outcome.overlap = 0.6;
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx",
                static_cast<unsigned long long>(0x9E3779B97F4A7C15ULL * taken));
  outcome.weights_hash = hash;
  return outcome;
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "cli/run_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/colour.h"
#include "cli/machine.h"
#include "cli/run_warnings.h"

namespace topknot::cli {
namespace {

constexpr std::chrono::seconds kBetweenLines(2);
constexpr std::size_t kMostRanksInMatrix = 256;

using Clock = std::chrono::steady_clock;

void write_times(EventFile& events, const train::StepRecord& record) {
  const StepReport& report = record.report;
  for (const auto& [name, seconds] : {std::pair("data", record.data_seconds),
                                      {"forward", record.forward_seconds},
                                      {"backward", record.backward_seconds},
                                      {"optimizer", record.optimizer_seconds},
                                      {"exposed", report.exposed_seconds},
                                      {"select", report.select_seconds},
                                      {"encode", report.encode_seconds},
                                      {"wait", report.wait_seconds},
                                      {"decode", report.decode_seconds}})
    events.scalar(std::string("time/") + name + "_seconds", record.step, seconds);
  if (report.threshold > 0)
    events.scalar("exchange/threshold", record.step, report.threshold);
  if (record.residual_norm > 0)
    events.scalar("exchange/residual_norm", record.step, record.residual_norm);
}

}  // namespace

RunLog::RunLog(const train::Job& job, const RunLogOptions& options)
    : job_(job),
      options_(options),
      shown_(Clock::now()),
      since_(Clock::now()),
      bar_(std::make_unique<Progress>(job.name, 0)) {
  if (options_.quiet) return;
  const double growth = bar_->terminal() ? 1 : 2;
  silence_ = std::make_unique<Silence>(
      [this] { return say_activity(); },
      Silence::Pace{.patience = std::chrono::milliseconds(1500), .growth = growth});
}

void RunLog::on_activity(const train::Activity& activity) {
  const std::scoped_lock lock(mutex_);
  if (activity.what != activity_.what) {
    since_ = Clock::now();
    if (silence_) silence_->reset();
  }
  activity_ = activity;
}

bool RunLog::say_activity() {
  const std::scoped_lock lock(mutex_);
  std::string text = activity_.what;
  if (activity_.total > 0)
    text +=
        fmt::format(" {}/{}", with_commas(activity_.done), with_commas(activity_.total));
  if (text.empty())
    text = fmt::format("in step {} of {}", earlier_.steps + own_.steps, start_.steps);
  const Waiting::Now now = options_.waiting ? options_.waiting->now() : Waiting::Now{};
  if (now.rank >= 0 && now.seconds > 1)
    text += fmt::format(", waiting for rank {} for {:.0f} s of {:.0f}", now.rank,
                        now.seconds, job_.timeout);
  const std::chrono::duration<double> lasting = Clock::now() - since_;
  text += fmt::format(" ({:.0f} s)", lasting.count());
  if (bar_->terminal()) {
    bar_->show_activity(text);
  } else {
    fmt::print(options_.to, "{}\n", text);
    std::fflush(options_.to);
  }
  return true;
}

void RunLog::begin_folder(const train::Start& start) {
  earlier_ = options_.folder->begin({{"started", time_now()},
                                     {"launch", options_.launch},
                                     {"workers", options_.workers},
                                     {"scheme", scheme_text(job_, start.job)},
                                     {"exchange", exchange_json(start.job)},
                                     {"job", to_json(job_)},
                                     {"job_as_run", to_json(start.job)},
                                     {"parameters", start.parameters},
                                     {"train_samples", start.train_samples},
                                     {"test_samples", start.test_samples},
                                     {"data_fingerprint", start.data_fingerprint},
                                     {"steps_per_epoch", start.steps_per_epoch},
                                     {"steps", start.steps},
                                     {"dense_bytes_per_step", start.dense_bytes},
                                     {"gradient_bytes", start.gradient_bytes},
                                     {"engine_bytes", start.engine_bytes},
                                     {"buckets", buckets_json(start)},
                                     {"auto", measured_json(start)},
                                     {"machine", describe_machine()},
                                     {"versions", describe_versions(options_.torch)}},
                                    start.first_step);
  if (!options_.tensorboard) return;
  events_ = std::make_unique<EventFile>(options_.folder->path(), start.first_step);
  events_->text(
      "run", start.first_step,
      fmt::format("{} on {}, seed {}, {} workers; {}; topknot {} ({}), torch {}",
                  job_.model, job_.data, job_.seed, options_.workers,
                  scheme_and_exchange(job_, start.job), TOPKNOT_VERSION, built_from(),
                  options_.torch));
}

void RunLog::on_start(const train::Start& start) {
  std::unique_lock lock(mutex_);
  start_ = start;
  activity_ = {};
  shown_ = since_ = Clock::now();
  if (silence_) silence_->reset();
  if (options_.folder != nullptr) begin_folder(start);
  bar_->clear();
  bar_ = std::make_unique<Progress>(job_.name, start.steps, start.first_step);
  lock.unlock();
  plain_line(fmt::format("{}: {} on {}, {} parameters, {} workers ({}), seed {}",
                         job_.name, job_.model, job_.data, with_commas(start.parameters),
                         options_.workers, options_.launch, job_.seed));
  plain_line(scheme_and_exchange(job_, start.job));
  for (const std::string& notice : start.notices) plain_line(notice);
  for (const std::string& warning : warnings_about(start)) warn(warning);
  if (start.first_step > 0)
    plain_line(fmt::format("resuming from step {} of {}", start.first_step, start.steps));
}

void RunLog::warn(const std::string& sentence) {
  const std::scoped_lock lock(mutex_);
  bar_->clear();
  fmt::print(options_.to, "topknot: {} {}\n",
             coloured(Colour::yellow, "warning:", options_.to), sentence);
  std::fflush(options_.to);
}

void RunLog::plain_line(const std::string& line) {
  if (options_.quiet) return;
  const std::scoped_lock lock(mutex_);
  bar_->clear();
  fmt::print(options_.to, "{}\n", line);
  std::fflush(options_.to);
  silence_->broken();
}

std::vector<std::string> RunLog::notes() const {
  const double count = at_least_one(window_.steps);
  return {
      fmt::format("loss {:.4f}", window_.loss / count),
      metric_.name.empty() ? "" : fmt::format("{} {:.4f}", metric_.name, metric_.value),
      bytes_text(window_.sent_bytes / count) + "/step",
      fmt::format("{:.0f} samples/s",
                  share(static_cast<double>(window_.samples), window_.seconds)),
      fmt::format("select {:.0f} % exchange {:.0f} % wait {:.0f} %",
                  100 * share(window_.select, window_.seconds),
                  100 * share(std::max(window_.busy - window_.select - window_.wait, 0.0),
                              window_.seconds),
                  100 * share(window_.wait, window_.seconds))};
}

void RunLog::on_step(const train::StepRecord& record) {
  const Json line = step_line(record);
  std::unique_lock lock(mutex_);
  activity_ = {};
  window_.add(line);
  own_.add(line);
  since_ = Clock::now();
  if (options_.folder != nullptr) options_.folder->add_step(line);
  if (events_) {
    events_->scalar("train/loss", record.step, record.loss);
    events_->scalar("train/lr", record.step, record.lr);
    events_->scalar("exchange/sent_bytes", record.step,
                    static_cast<double>(record.sent_bytes));
    events_->scalar("time/step_seconds", record.step, record.seconds);
    write_times(*events_, record);
  }
  if (options_.quiet) return;
  bar_->show(record.step + 1, notes());
  silence_->broken();
  if (Clock::now() - shown_ < kBetweenLines) return;
  const std::string text =
      fitting_line(fmt::format("epoch {}/{}  step {}/{}", record.epoch + 1, job_.epochs,
                               record.step + 1, start_.steps),
                   notes(), std::string::npos);
  const std::string left = bar_->time_left();
  window_ = {};
  shown_ = Clock::now();
  lock.unlock();
  if (!bar_->terminal()) plain_line(left.empty() ? text : text + "  " + left);
}

void RunLog::on_settling(std::uint64_t steps, std::uint64_t sent_bytes) {
  if (options_.folder != nullptr)
    options_.folder->add_settling({{"step", steps}, {"sent_bytes", sent_bytes}});
}

void RunLog::on_epoch(const train::EpochRecord& record) {
  std::string line = fmt::format("epoch {}/{} done  train loss {:.4f}", record.epoch + 1,
                                 job_.epochs, record.train_loss);
  if (record.evaluated) {
    metric_ = record.metric;
    line += fmt::format("  test loss {:.4f}  {} {:.4f}", record.test_loss, metric_.name,
                        metric_.value);
    for (const train::Metric& other : record.others)
      line += fmt::format("  {} {:.4f}", other.name, other.value);
  }
  on_activity({});
  plain_line(line + "  " + duration_text(record.seconds));
  if (options_.folder != nullptr) options_.folder->add_epoch(epoch_line(record));
  if (!events_) return;
  events_->scalar("epoch/train_loss", record.step, record.train_loss);
  if (!record.evaluated) return;
  events_->scalar("epoch/test_loss", record.step, record.test_loss);
  events_->scalar("epoch/" + record.metric.name, record.step, record.metric.value);
  for (const train::Metric& other : record.others)
    events_->scalar("epoch/" + other.name, record.step, other.value);
}

void RunLog::on_checkpoint(std::uint64_t, double seconds) {
  ++saved_;
  save_seconds_ += seconds;
}

void RunLog::on_checkpoint_failed(const std::string& sentence) {
  warn("A checkpoint was not saved, training continues: " + sentence);
}

void RunLog::finish(const train::Outcome& outcome) {
  silence_.reset();
  bar_->clear();
  if (options_.folder == nullptr) return;
  if (!traffic_.bytes.empty() && traffic_.bytes.size() <= kMostRanksInMatrix)
    options_.folder->write("traffic.json", to_json(traffic_));
  if (outcome.stopped_early) return;
  options_.folder->write("result.json", result(outcome));
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/run_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/machine.h"

namespace topknot::cli {
namespace {

constexpr std::chrono::seconds kBetweenLines(2);

Json step_line(const train::StepRecord& record) {
  const StepReport& report = record.report;
  return {{"step", record.step},
          {"epoch", record.epoch},
          {"loss", record.loss},
          {"lr", record.lr},
          {"finite", record.finite},
          {"samples", record.samples},
          {"sent_bytes", record.sent_bytes},
          {"sent_messages", report.sent_messages},
          {"k_wanted", report.k_wanted},
          {"k_selected", report.k_selected},
          {"count", report.count},
          {"seconds", record.seconds},
          {"compute_seconds", record.compute_seconds},
          {"select_seconds", report.select_seconds},
          {"wait_seconds", report.wait_seconds},
          {"busy_seconds", report.busy_seconds},
          {"exposed_seconds", report.exposed_seconds},
          {"overlap", report.overlap}};
}

Json to_json(const train::Metric& metric) {
  if (metric.name.empty()) return nullptr;
  return {{"name", metric.name}, {"value", metric.value}};
}

Json epoch_line(const train::EpochRecord& record) {
  Json others = Json::array();
  for (const train::Metric& other : record.others) others.push_back(to_json(other));
  Json line{{"epoch", record.epoch},
            {"step", record.step},
            {"lr", record.lr},
            {"train_loss", record.train_loss},
            {"test_loss", record.evaluated ? Json(record.test_loss) : Json()},
            {"metric", record.evaluated ? to_json(record.metric) : Json()},
            {"seconds", record.seconds}};
  if (!others.empty()) line["others"] = std::move(others);
  return line;
}

Json buckets_of(const train::Start& start) {
  Json buckets = Json::array();
  for (const Layout& layout : start.buckets)
    buckets.push_back(
        {{"tensors", layout.tensors.size()}, {"coordinates", layout.size()}});
  return buckets;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

Json to_json(const train::Job& job) {
  Json all = Json::object();
  for (const train::Key& key : train::keys()) {
    const std::string value = train::get(job, key.name);
    Json& place = all[std::string(key.name)];
    if (key.range == "text") {
      place = value;
    } else if (key.range == "a list") {
      place = Json::array();
      std::istringstream words(value);
      for (std::string word; words >> word;) place.push_back(word);
    } else {
      place = Json::parse(value);
    }
  }
  return all;
}

std::string describe_exchange(const train::Job& job) {
  std::string text = job.collective.empty() ? job.scheme : job.collective;
  if (job.scheme != "dense") text += fmt::format(" at density {}", job.density);
  if (job.local_steps > 1) text += fmt::format(" every {} steps", job.local_steps);
  return text;
}

Json to_json(const train::Job& job, int workers, const train::Outcome& outcome) {
  return {{"job", job.name},
          {"scheme", job.scheme},
          {"workers", workers},
          {"steps", outcome.steps},
          {"epochs", outcome.epochs},
          {"seconds", outcome.seconds},
          {"metric", to_json(outcome.metric)},
          {"sent_bytes_per_step", outcome.sent_bytes_per_step},
          {"dense_bytes_per_step", outcome.dense_bytes_per_step},
          {"exposed_seconds_per_step", outcome.exposed_seconds_per_step},
          {"skipped_steps", outcome.skipped_steps},
          {"weights_hash", outcome.weights_hash}};
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 99.95 ? 0 : 1,
                     kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

void RunLog::Window::add(const train::StepRecord& record) {
  ++steps;
  samples += record.samples;
  loss += record.loss;
  sent_bytes += static_cast<double>(record.sent_bytes);
  seconds += record.seconds;
  select += record.report.select_seconds;
  wait += record.report.wait_seconds;
  busy += record.report.busy_seconds;
}

std::string RunLog::Window::text(const train::Metric& metric) const {
  const double count = static_cast<double>(std::max<std::uint64_t>(steps, 1));
  const std::string measured =
      metric.name.empty() ? "" : fmt::format("{} {:.4f}  ", metric.name, metric.value);
  return fmt::format(
      "loss {:.4f}  {}{:.0f} samples/s  {}/step  select {:.0f} % exchange {:.0f} % wait "
      "{:.0f} %",
      loss / count, measured, share(static_cast<double>(samples), seconds),
      bytes_text(sent_bytes / count), 100 * share(select, seconds),
      100 * share(std::max(busy - select - wait, 0.0), seconds),
      100 * share(wait, seconds));
}

RunLog::RunLog(const train::Job& job, const RunLogOptions& options)
    : job_(job), options_(options) {}

void RunLog::on_start(const train::Start& start) {
  start_ = start;
  shown_ = std::chrono::steady_clock::now();
  if (options_.folder != nullptr) {
    Json versions = describe_versions();
    if (!options_.torch.empty()) versions["torch"] = options_.torch;
    options_.folder->begin({{"started", time_now()},
                            {"launch", options_.launch},
                            {"workers", options_.workers},
                            {"job", to_json(job_)},
                            {"job_as_run", to_json(start.job)},
                            {"parameters", start.parameters},
                            {"train_samples", start.train_samples},
                            {"test_samples", start.test_samples},
                            {"steps_per_epoch", start.steps_per_epoch},
                            {"steps", start.steps},
                            {"dense_bytes_per_step", start.dense_bytes},
                            {"gradient_bytes", start.gradient_bytes},
                            {"engine_bytes", start.engine_bytes},
                            {"buckets", buckets_of(start)},
                            {"machine", describe_machine()},
                            {"versions", versions}},
                           start.first_step);
    if (options_.tensorboard)
      events_ = std::make_unique<EventFile>(options_.folder->path(), start.first_step);
  }
  bar_ = std::make_unique<Progress>(job_.name, start.steps);
  plain_line(fmt::format("{}: {} on {}, {} parameters, {} workers ({}), {}", job_.name,
                         job_.model, job_.data, start.parameters, options_.workers,
                         options_.launch, describe_exchange(start.job)));
  for (const std::string& notice : start.notices) plain_line(notice);
  if (start.first_step > 0)
    plain_line(fmt::format("resuming from step {} of {}", start.first_step, start.steps));
}

void RunLog::plain_line(const std::string& line) {
  if (bar_) bar_->clear();
  fmt::print(options_.to, "{}\n", line);
  std::fflush(options_.to);
}

void RunLog::on_step(const train::StepRecord& record) {
  window_.add(record);
  all_.add(record);
  skipped_ += record.finite ? 0 : 1;
  if (options_.folder != nullptr) options_.folder->add_step(step_line(record));
  if (events_) {
    events_->scalar("train/loss", record.step, record.loss);
    events_->scalar("train/lr", record.step, record.lr);
    events_->scalar("exchange/sent_bytes", record.step,
                    static_cast<double>(record.sent_bytes));
    events_->scalar("time/step_seconds", record.step, record.seconds);
    events_->scalar("time/exposed_seconds", record.step, record.report.exposed_seconds);
  }
  bar_->show(record.step + 1, window_.text(metric_));
  if (std::chrono::steady_clock::now() - shown_ < kBetweenLines) return;
  if (!bar_->terminal())
    plain_line(fmt::format("epoch {}/{}  step {}/{}  {}", record.epoch + 1, job_.epochs,
                           record.step + 1, start_.steps, window_.text(metric_)));
  window_ = {};
  shown_ = std::chrono::steady_clock::now();
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
  plain_line("A checkpoint was not saved, training continues: " + sentence);
}

std::string RunLog::summary(const train::Outcome& outcome) const {
  std::string text;
  const auto add = [&](const char* what, const std::string& said) {
    text += fmt::format("  {:<11} {}\n", what, said);
  };
  const auto steps = static_cast<double>(std::max<std::uint64_t>(all_.steps, 1));
  if (!outcome.metric.name.empty())
    add(outcome.metric.name.c_str(),
        fmt::format("{:.4f} on {} test samples", outcome.metric.value,
                    start_.test_samples));
  add("time",
      fmt::format("{} for {} of {} steps, {} epochs; {:.0f} samples/s, {:.1f} ms "
                  "a step",
                  duration_text(outcome.seconds), all_.steps, outcome.steps,
                  outcome.epochs, share(static_cast<double>(all_.samples), all_.seconds),
                  1e3 * all_.seconds / steps));
  const double sent = outcome.sent_bytes_per_step;
  const double dense = outcome.dense_bytes_per_step;
  add("sent", fmt::format("{} a step by the busiest worker; dense {}{}", bytes_text(sent),
                          bytes_text(dense),
                          sent > 0 && dense > 0
                              ? fmt::format(", {:.1f} times as much", dense / sent)
                              : ""));
  add("exchange",
      fmt::format("{:.0f} % hidden behind the backward pass; the rest, {:.2f} ms "
                  "a step, was waited for",
                  100 * outcome.overlap, 1e3 * outcome.exposed_seconds_per_step));
  add("memory", fmt::format("gradients {} a worker, {} beyond them; peak of {} {}",
                            bytes_text(static_cast<double>(start_.gradient_bytes)),
                            bytes_text(static_cast<double>(start_.engine_bytes)),
                            options_.launch == "mpi" ? "rank 0" : "all workers together",
                            bytes_text(static_cast<double>(peak_memory_bytes()))));
  if (skipped_ > 0)
    add("skipped", fmt::format("{} steps whose gradient was not finite", skipped_));
  if (saved_ > 0)
    add("saved",
        fmt::format("{} checkpoints in {}", saved_, duration_text(save_seconds_)));
  add("weights", outcome.weights_hash);
  if (options_.folder != nullptr) add("left in", options_.folder->path().string());
  return text;
}

void RunLog::finish(const train::Outcome& outcome) {
  if (bar_) bar_->clear();
  if (options_.folder == nullptr || outcome.stopped_early) return;
  options_.folder->write("result.json", to_json(job_, options_.workers, outcome));
}

}  // namespace topknot::cli

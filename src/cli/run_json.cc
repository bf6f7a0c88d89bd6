// SPDX-License-Identifier: Apache-2.0
#include "cli/run_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "engine/recipe.h"
#include "engine/rules.h"

namespace topknot::cli {

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

void set_from_json(train::Job& job, const Json& json) {
  for (const auto& [key, value] : json.items()) {
    std::string text;
    if (value.is_array()) {
      for (const Json& word : value)
        text += (text.empty() ? "" : " ") + word.get<std::string>();
    } else {
      text = value.is_string() ? value.get<std::string>() : value.dump();
    }
    train::set(job, key, text);
  }
}

Json to_json(const train::Metric& metric) {
  if (metric.name.empty()) return nullptr;
  return {{"name", metric.name}, {"value", metric.value}};
}

Json step_line(const train::StepRecord& record) {
  const StepReport& report = record.report;
  Json line{{"step", record.step},
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
            {"data_seconds", record.data_seconds},
            {"forward_seconds", record.forward_seconds},
            {"backward_seconds", record.backward_seconds},
            {"optimizer_seconds", record.optimizer_seconds},
            {"agree_seconds", record.agree_seconds},
            {"select_seconds", report.select_seconds},
            {"encode_seconds", report.encode_seconds},
            {"wait_seconds", report.wait_seconds},
            {"decode_seconds", report.decode_seconds},
            {"busy_seconds", report.busy_seconds},
            {"exposed_seconds", report.exposed_seconds},
            {"overlap", report.overlap}};
  if (report.threshold > 0) line["threshold"] = report.threshold;
  if (record.residual_norm > 0) line["residual_norm"] = record.residual_norm;
  return line;
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
            {"seconds", record.seconds},
            {"evaluation_seconds", record.evaluation_seconds}};
  if (!others.empty()) line["others"] = std::move(others);
  return line;
}

Json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return Json::parse(stream, nullptr, /*allow_exceptions=*/false);
}

Json buckets_json(const train::Start& start) {
  Json buckets = Json::array();
  for (const Layout& layout : start.buckets)
    buckets.push_back(
        {{"tensors", layout.tensors.size()}, {"coordinates", layout.size()}});
  if (start.job.auto_choice.empty()) return buckets;
  // What auto has decided, and why.
  const engine::Densities densities(start.job);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::vector<bool> whole = densities.sent_whole(start.buckets[i]);
    const bool dense = std::ranges::find(whole, false) == whole.end();
    buckets[i]["scheme"] = dense ? "dense" : start.job.scheme;
  }
  return buckets;
}

Json measured_json(const train::Start& start) {
  Json measured = Json::array();
  for (const sim::ChosenBucket& bucket : start.measured)
    measured.push_back({{"coordinates", bucket.coordinates},
                        {"dense_seconds", bucket.dense_seconds},
                        {"sparse_seconds", bucket.sparse_seconds},
                        {"chosen", bucket.sparse ? "sparse" : "dense"}});
  return measured;
}

Json exchange_json(const train::Job& as_run) {
  const engine::Recipe recipe = engine::Recipe::of(as_run);
  return {{"of", as_run.exchange},
          {"memory", recipe.memory.str()},
          {"compressor", recipe.compressor.str()},
          {"collective", recipe.collective.str()},
          {"density_schedule", recipe.schedule.str()},
          {"density", as_run.density},
          {"local_steps", as_run.local_steps}};
}

namespace {

std::string parts_text(const train::Job& as_run) {
  const engine::Recipe recipe = engine::Recipe::of(as_run);
  return fmt::format("{} + {} + {}", recipe.memory.str(), recipe.compressor.str(),
                     recipe.collective.str());
}

bool has_own_parts(const train::Job& job) {
  return !(job.memory.empty() && job.compressor.empty() && job.collective.empty());
}

}  // namespace

std::string exchange_text(const train::Job& as_run) {
  const Spec collective = engine::Recipe::of(as_run).collective;
  std::string text =
      collective.name == "dense"
          ? collective.str()
          : fmt::format("{} at density {}", parts_text(as_run), as_run.density);
  if (as_run.local_steps > 1) text += fmt::format(" every {} steps", as_run.local_steps);
  return text;
}

std::string scheme_text(const train::Job& job, const train::Job& as_run) {
  return has_own_parts(job) ? parts_text(as_run) : job.scheme;
}

std::string scheme_and_exchange(const train::Job& job, const train::Job& as_run) {
  const std::string exchange = exchange_text(as_run);
  return has_own_parts(job) ? exchange : job.scheme + ": " + exchange;
}

void StepTotals::add(const Json& line) {
  const auto number = [&line](const char* field) {
    const auto found = line.find(field);
    return found == line.end() || !found->is_number() ? 0.0 : found->get<double>();
  };
  ++steps;
  applied += line.value("finite", true) ? 1 : 0;
  exchanges += number("count") > 0 ? 1 : 0;
  samples += static_cast<std::uint64_t>(number("samples"));
  loss += number("loss");
  sent_bytes += number("sent_bytes");
  count += number("count");
  seconds += number("seconds");
  select += number("select_seconds");
  wait += number("wait_seconds");
  busy += number("busy_seconds");
  exposed += number("exposed_seconds");
}

double StepTotals::density(std::uint64_t n) const {
  const double all = static_cast<double>(exchanges) * static_cast<double>(n);
  return all > 0 ? count / all : 0;
}

StepTotals totals_of(const std::filesystem::path& steps) {
  StepTotals totals;
  std::ifstream stream(steps);
  for (std::string line; std::getline(stream, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) totals.add(json);
  }
  return totals;
}

}  // namespace topknot::cli

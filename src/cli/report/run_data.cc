// SPDX-License-Identifier: Apache-2.0
#include "cli/report/run_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "cli/report/network_time.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Json read_object(const fs::path& path) {
  std::ifstream stream(path);
  Json json = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw DataError(
        fmt::format("{} is damaged: it is not a JSON object.", path.string()));
  return json;
}

void for_each_line(const fs::path& path, const std::function<void(const Json&)>& use) {
  std::ifstream stream(path);
  std::uint64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    if (stream.eof()) return;  // the run is writing it
    ++number;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      throw DataError(
          fmt::format("{}:{} is damaged: it is not JSON.", path.string(), number));
    use(json);
  }
}

double number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : kNone;
}

std::optional<double> known(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// The means of runs of values, as many as are needed to have at most so many means.
class Thinner {
 public:
  Thinner(Curve& curve, std::size_t together) : curve_(curve), together_(together) {}

  void add(const Place& place, const std::vector<double>& values) {
    place_ = place;
    sums_.resize(values.size());
    counts_.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      sums_[i] += values[i];
      ++counts_[i];
    }
    if (++held_ == together_) flush();
  }

  void flush() {
    if (held_ == 0) return;
    curve_.places.push_back(place_);
    for (std::size_t i = 0; i < sums_.size(); ++i)
      curve_.values[i].second.push_back(counts_[i] > 0 ? sums_[i] / counts_[i] : kNone);
    std::ranges::fill(sums_, 0.0);
    std::ranges::fill(counts_, 0.0);
    held_ = 0;
  }

 private:
  Curve& curve_;
  std::size_t together_;
  std::size_t held_ = 0;
  Place place_;
  std::vector<double> sums_;
  std::vector<double> counts_;
};

std::size_t count_lines(const fs::path& path) {
  std::size_t lines = 0;
  for_each_line(path, [&](const Json&) { ++lines; });
  return lines;
}

double parameters_of(const RunData& data) {
  const double n = number_in(data.run, "parameters");
  return n > 0 ? n : kNone;
}

constexpr std::pair<double StepTimes::*, const char*> kTimes[] = {
    {&StepTimes::seconds, "seconds"},
    {&StepTimes::compute, "compute_seconds"},
    {&StepTimes::data, "data_seconds"},
    {&StepTimes::forward, "forward_seconds"},
    {&StepTimes::backward, "backward_seconds"},
    {&StepTimes::exposed, "exposed_seconds"},
    {&StepTimes::optimizer, "optimizer_seconds"},
    {&StepTimes::select, "select_seconds"},
    {&StepTimes::encode, "encode_seconds"},
    {&StepTimes::wait, "wait_seconds"},
    {&StepTimes::decode, "decode_seconds"},
};

double or_zero(double value) { return std::isfinite(value) ? value : 0; }

MeasuredStep measured(const Json& line, double n) {
  MeasuredStep step;
  step.seconds = or_zero(number_in(line, "seconds"));
  step.busy = or_zero(number_in(line, "busy_seconds"));
  step.wait = or_zero(number_in(line, "wait_seconds"));
  step.exposed = or_zero(number_in(line, "exposed_seconds"));
  // A step inside a round exchanges nothing.
  if (number_in(line, "sent_bytes") > 0)
    step.density = or_zero(number_in(line, "k_wanted") / n);
  return step;
}

/// Bytes that settled residuals, by the number of steps before.
std::map<double, double> settlings_in(const fs::path& folder) {
  std::map<double, double> bytes;
  for_each_line(folder / "settlings.jsonl", [&](const Json& line) {
    bytes[number_in(line, "step")] += or_zero(number_in(line, "sent_bytes"));
  });
  return bytes;
}

/// Returns the place after each step: epochs.jsonl knows its steps only.
std::vector<Place> read_steps(RunData& data, NetworkTime* network) {
  const fs::path file = data.folder / "steps.jsonl";
  const std::size_t lines = count_lines(file);
  data.curve.values = {{"loss", {}}, {"density", {}},   {"agreed", {}},
                       {"sent", {}}, {"threshold", {}}, {"residual", {}}};
  Thinner thinner(data.curve, std::max<std::size_t>(1, (lines + kPoints - 1) / kPoints));
  const std::map<double, double> settlings = settlings_in(data.folder);
  std::vector<Place> places(1);
  const double n = parameters_of(data);
  for_each_line(file, [&](const Json& line) {
    const MeasuredStep step = measured(line, n);
    const double sent = number_in(line, "sent_bytes");
    for (const auto& [time, key] : kTimes) data.times.*time += number_in(line, key);
    data.times.exchange +=
        std::max(step.busy - step.wait - number_in(line, "select_seconds"), 0.0);
    Place place = places.back();
    ++place.steps;
    place.bytes += or_zero(sent);
    if (const auto settled = settlings.find(place.steps); settled != settlings.end())
      place.bytes += settled->second;
    data.applied += line.value("finite", true) ? 1 : 0;
    place.seconds += step.seconds;
    if (network != nullptr) place.network_seconds += network->seconds(step);
    places.push_back(place);
    thinner.add(place, {number_in(line, "loss"),
                        sent > 0 ? number_in(line, "k_selected") / n : kNone,
                        sent > 0 ? number_in(line, "count") / n : kNone, sent,
                        number_in(line, "threshold"), number_in(line, "residual_norm")});
  });
  thinner.flush();
  data.steps = places.size() - 1;
  const double steps = std::max<double>(1, static_cast<double>(data.steps));
  for (const auto& [time, key] : kTimes) data.times.*time /= steps;
  data.times.exchange /= steps;
  data.seconds = places.back().seconds;
  data.network_seconds = places.back().network_seconds;
  data.bytes = places.back().bytes;
  return places;
}

void read_epochs(RunData& data, const std::vector<Place>& places) {
  data.epochs.values = {{"metric", {}}, {"test_loss", {}}};
  for_each_line(data.folder / "epochs.jsonl", [&](const Json& line) {
    const double step = number_in(line, "step");
    data.train_loss = known(number_in(line, "train_loss"));
    const auto metric = line.find("metric");
    if (metric == line.end() || !metric->is_object() || !(step >= 0)) return;
    data.metric_name = metric->value("name", "");
    data.metric = known(number_in(*metric, "value"));
    data.test_loss = known(number_in(line, "test_loss"));
    data.epochs.places.push_back(
        places[std::min(static_cast<std::size_t>(step), places.size() - 1)]);
    data.epochs.values[0].second.push_back(data.metric.value_or(kNone));
    data.epochs.values[1].second.push_back(data.test_loss.value_or(kNone));
  });
}

/// Mean loss of the applied steps of the last epoch, which may have been cut short.
std::optional<double> loss_at_the_end(const fs::path& steps) {
  double epoch = 0;
  double sum = 0;
  double count = 0;
  for_each_line(steps, [&](const Json& line) {
    if (number_in(line, "epoch") != epoch) sum = count = 0;
    epoch = number_in(line, "epoch");
    if (!line.value("finite", true)) return;
    sum += number_in(line, "loss");
    ++count;
  });
  return known(sum / count);
}

/// A run that ends inside an epoch is evaluated there, which is in no line of epochs.jsonl.
void read_end(RunData& data, const Place& end) {
  const Json result = read_object(data.folder / "result.json");
  const auto metric = result.find("metric");
  if (metric == result.end() || !metric->is_object()) return;
  const auto value = known(number_in(*metric, "value"));
  const bool is_in_epochs =
      !data.epochs.places.empty() &&
      (data.epochs.places.back().steps >= end.steps || data.metric == value);
  if (is_in_epochs) return;
  data.metric_name = metric->value("name", "");
  data.metric = value;
  data.test_loss.reset();
  data.train_loss = loss_at_the_end(data.folder / "steps.jsonl");
  data.epochs.places.push_back(end);
  data.epochs.values[0].second.push_back(value.value_or(kNone));
  data.epochs.values[1].second.push_back(kNone);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Keys that say where and how long, not what.
bool is_about_the_machine(const std::string& key) {
  static const std::set<std::string> keys{"name", "folder", "threads", "timeout",
                                          "checkpoint_timeout"};
  return keys.contains(key);
}

std::vector<std::string> differing_keys(const std::vector<RunData>& runs) {
  std::vector<std::string> keys{"scheme"};
  for (const auto& [key, value] : runs.front().run["job"].items()) {
    if (is_about_the_machine(key) || key == "scheme") continue;
    const bool differs =
        std::ranges::any_of(runs, [&, &name = key](const RunData& other) {
          return other.run["job"].value(name, Json()) != runs.front().run["job"][name];
        });
    if (differs) keys.push_back(key);
  }
  return keys;
}

std::vector<std::string> label_by(const std::vector<RunData>& runs,
                                  const std::vector<std::string>& keys) {
  std::vector<std::string> labels;
  for (const RunData& data : runs) {
    std::string label;
    for (const std::string& key : keys) {
      const std::string value = text_of(data.run["job"].value(key, Json()));
      if (value.empty() || value == "null" || value == "0") continue;
      if (!label.empty()) label += ", ";
      label += key == "scheme" ? value : key + " " + value;
    }
    labels.push_back(label);
  }
  return labels;
}

}  // namespace

bool lower_is_better(const std::string& metric) {
  return metric.find("perplexity") != std::string::npos ||
         metric.find("error") != std::string::npos ||
         metric.find("loss") != std::string::npos;
}

double RunData::bytes_per_step() const {
  return bytes / static_cast<double>(std::max<std::uint64_t>(applied, 1));
}

std::optional<RunData::Reached> RunData::reached(double target) const {
  const bool low = lower_is_better(metric_name);
  for (std::size_t i = 0; i < epochs.places.size(); ++i) {
    const double value = epochs.values[0].second[i];
    if (low ? value <= target : value >= target)
      return Reached{epochs.places[i].seconds, epochs.places[i].bytes};
  }
  return std::nullopt;
}

RunData read_run(const fs::path& folder, const Network* network) {
  if (!fs::exists(folder / "run.json"))
    throw DataError(fmt::format(
        "There is no run in {}: name a folder that `topknot train --out` has made.",
        folder.string()));
  RunData data;
  data.folder = folder;
  data.run = read_object(folder / "run.json");
  if (!data.run.contains("job") || !data.run["job"].is_object())
    throw DataError(
        fmt::format("{} is damaged: it has no job.", (folder / "run.json").string()));
  data.finished = fs::exists(folder / "result.json");
  if (fs::exists(folder / "traffic.json"))
    data.traffic = traffic_in(read_object(folder / "traffic.json"));
  std::optional<NetworkTime> elsewhere;
  if (network != nullptr) elsewhere.emplace(data.run, *network);
  const std::vector<Place> places = read_steps(data, elsewhere ? &*elsewhere : nullptr);
  read_epochs(data, places);
  if (data.finished) read_end(data, places.back());
  return data;
}

std::vector<std::string> label_groups(const std::vector<RunData>& runs) {
  std::vector<std::string> keys = differing_keys(runs);
  std::erase(keys, "seed");
  return label_by(runs, keys);
}

std::vector<std::string> label_runs(const std::vector<RunData>& runs) {
  const std::vector<std::string> by_job = label_by(runs, differing_keys(runs));
  std::vector<std::string> labels = by_job;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (std::ranges::count(by_job, by_job[i]) > 1)
      labels[i] = runs[i].folder.lexically_normal().string();
    for (int copy = 2; !seen.insert(labels[i]).second; ++copy)
      labels[i] = fmt::format("{} ({})", runs[i].folder.string(), copy);
  }
  return labels;
}

}  // namespace topknot::cli

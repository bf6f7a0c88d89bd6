// SPDX-License-Identifier: Apache-2.0
#include "cli/report/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/machine.h"
#include "cli/report/assets.h"

namespace topknot::cli {
namespace {

/// Five significant digits are more than a plot shows, and keep the page small.
Json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return static_cast<std::int64_t>(value);
  return Json::parse(fmt::format("{:.5g}", value));
}

Json short_numbers(const std::vector<double>& values) {
  Json all = Json::array();
  for (const double value : values) all.push_back(short_number(value));
  return all;
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Curve& curve) {
  const auto along = [&](double Place::*part) {
    Json all = Json::array();
    for (const Place& place : curve.places) all.push_back(short_number(place.*part));
    return all;
  };
  Json json{{"step", along(&Place::steps)},
            {"bytes", along(&Place::bytes)},
            {"seconds", along(&Place::seconds)}};
  if (!curve.places.empty() && curve.places.back().network_seconds > 0)
    json["network_seconds"] = along(&Place::network_seconds);
  for (const auto& [name, values] : curve.values) json[name] = short_numbers(values);
  return json;
}

Json to_json(const StepTimes& times) {
  // Older runs have no parts of compute.
  const double optimizer = std::isfinite(times.optimizer) ? times.optimizer : 0;
  const double rest = times.seconds - times.compute - times.exposed - optimizer;
  return {{"seconds", short_number(times.seconds)},
          {"compute", short_number(times.compute)},
          {"select", short_number(times.select)},
          {"exchange", short_number(times.exchange)},
          {"wait", short_number(times.wait)},
          {"exposed", short_number(times.exposed)},
          {"data", short_number(times.data)},
          {"forward", short_number(times.forward)},
          {"backward", short_number(times.backward)},
          {"optimizer", short_number(times.optimizer)},
          {"encode", short_number(times.encode)},
          {"decode", short_number(times.decode)},
          {"rest", short_number(std::max(rest, 0.0))}};
}

Json per_step(const std::vector<std::vector<double>>& rows, std::uint64_t steps) {
  Json all = Json::array();
  for (const auto& row : rows) {
    std::vector<double> scaled = row;
    for (double& value : scaled) value /= static_cast<double>(steps);
    all.push_back(short_numbers(scaled));
  }
  return all;
}

Json traffic_json(const TrafficMatrix& matrix) {
  if (matrix.bytes.size() < 2) return nullptr;
  return {{"bytes", per_step(matrix.bytes, matrix.steps)},
          {"messages", per_step(matrix.messages, matrix.steps)},
          {"waits", per_step(matrix.wait_seconds, matrix.steps)},
          {"note", describe_imbalance(matrix)},
          {"wait_note", describe_waits(matrix)}};
}

Json configuration(const RunData& data) {
  Json all{{"folder", data.folder.string()}};
  for (const auto& [key, value] : data.run.items())
    if (key != "job" && key != "job_as_run") all[key] = value;
  const Json as_run = data.run.value("job_as_run", Json::object());
  for (const auto& [key, value] : data.run["job"].items()) {
    const Json decided = as_run.value(key, value);
    all["job." + key] =
        decided == value
            ? value
            : Json(fmt::format("{} (decided: {})", value.dump(), decided.dump()));
  }
  return all;
}

/// "oktopk at density 0.01 every 4 steps"
std::string describe_exchange(const Json& job) {
  const std::string scheme = job.value("scheme", "");
  const std::string collective = job.value("collective", "");
  std::string text = collective.empty() ? scheme : collective;
  if (scheme != "dense") text += " at density " + job.value("density", Json(0)).dump();
  if (const auto steps = job.value("local_steps", 0); steps > 1)
    text += fmt::format(" every {} steps", steps);
  return text;
}

Json to_json(const RunData& data, const PageOptions& options) {
  const Json& job =
      data.run.contains("job_as_run") ? data.run["job_as_run"] : data.run["job"];
  const auto reached =
      options.target ? data.reached(*options.target) : std::optional<RunData::Reached>();
  return {{"finished", data.finished},
          {"exchange", describe_exchange(job)},
          {"steps", data.steps},
          {"seconds", short_number(data.seconds)},
          {"network_seconds",
           data.network_seconds > 0 ? short_number(data.network_seconds) : Json()},
          {"metric", number_or_null(data.metric)},
          {"test_loss", number_or_null(data.test_loss)},
          {"train_loss", number_or_null(data.train_loss)},
          {"sent_bytes", short_number(data.bytes)},
          {"sent_bytes_per_step", short_number(data.bytes_per_step())},
          {"dense_bytes_per_step", data.run.value("dense_bytes_per_step", Json())},
          {"seconds_to_target", reached ? short_number(reached->seconds) : Json()},
          {"bytes_to_target", reached ? short_number(reached->bytes) : Json()},
          {"step", to_json(data.times)},
          {"traffic", traffic_json(data.traffic)},
          {"curve", to_json(data.curve)},
          {"epochs", to_json(data.epochs)},
          {"configuration", configuration(data)}};
}

/// "cnn on fashion-mnist, 4 workers (threads), 225,034 parameters"; what all runs share.
std::string describe(const std::vector<RunData>& runs) {
  const Json& first = runs.front().run;
  const auto shared = [&](const auto& of) {
    return std::ranges::all_of(
        runs, [&](const RunData& other) { return of(other.run) == of(first); });
  };
  const auto key = [](const char* name) {
    return [name](const Json& run) { return run["job"].value(name, ""); };
  };
  const auto field = [](const char* name) {
    return [name](const Json& run) { return run.value(name, Json()); };
  };
  std::string text;
  const auto add = [&](const std::string& words) {
    if (!words.empty()) text += (text.empty() ? "" : ", ") + words;
  };
  if (shared(key("model")) && shared(key("data")))
    add(key("model")(first) + " on " + key("data")(first));
  if (shared(field("parameters")) && first.contains("parameters"))
    add(first["parameters"].dump() + " parameters");
  if (shared(field("workers")) && shared(field("launch")) && first.contains("workers"))
    add(first["workers"].dump() + " workers (" + first.value("launch", "") + ")");
  if (const Json machine = field("machine")(first);
      shared(field("machine")) && machine.is_object())
    add(machine.value("processor", ""));
  return text;
}

void replace(std::string& text, std::string_view place, std::string_view by) {
  const std::size_t at = text.find(place);
  if (at != std::string::npos) text.replace(at, place.size(), by);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += letter;
    }
  return out;
}

/// JSON that cannot end the script element that it is in.
std::string script_safe(const Json& data) {
  const std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const char letter : text) {
    if (letter == '<')
      out += "\\u003c";
    else
      out += letter;
  }
  return out;
}

}  // namespace

bool has_plotting_library() { return *assets::kChart != '\0'; }

std::string missing_plotting_library() {
  return "This topknot was built without Chart.js, so the page has tables and no plots: "
         "install libjs-chart.js and build again.";
}

Json page_data(const std::vector<RunData>& runs, const PageOptions& options) {
  const std::vector<std::string> labels = label_runs(runs);
  const std::vector<std::string> groups = label_groups(runs);
  std::vector<std::string> seen;
  Json all = Json::array();
  std::string metric;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto group = std::ranges::find(seen, groups[i]);
    if (group == seen.end()) group = seen.insert(seen.end(), groups[i]);
    Json one{{"label", labels[i]}, {"group", group - seen.begin()}};
    one.update(to_json(runs[i], options));
    all.push_back(std::move(one));
    if (metric.empty()) metric = runs[i].metric_name;
  }
  return {{"title", options.title},
          {"subtitle", describe(runs)},
          {"made", fmt::format("Made {} by topknot {} ({}).", time_now(), TOPKNOT_VERSION,
                               built_from())},
          {"metric",
           {{"name", metric.empty() ? "metric" : metric},
            {"lower_is_better", lower_is_better(metric)}}},
          {"target", number_or_null(options.target)},
          {"network", options.network.empty() ? Json() : Json(options.network)},
          {"no_plots", missing_plotting_library()},
          {"runs", std::move(all)}};
}

std::string make_page(const Json& data) {
  std::string page = assets::kHtml;
  const std::string title = escaped(data["title"].get<std::string>());
  replace(page, "@TITLE@", title);
  replace(page, "@TITLE@", title);
  replace(page, "@STYLE@", assets::kStyle);
  replace(page, "@DATA@", script_safe(data));
  replace(page, "@LIBRARY@", assets::kChart);
  replace(page, "@SCRIPT@", std::string(assets::kScript) + assets::kPlots);
  return page;
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/comparison_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/run_log.h"

namespace topknot::cli {
namespace {

/// The mean of a figure over the seeds; nothing where a seed does not have it.
struct Mean {
  std::optional<double> value;
  double deviation = 0;
};

struct Row {
  std::string label;
  std::vector<const RunData*> runs;

  template <typename Of>
  Mean mean(const Of& of) const {
    double sum = 0, squares = 0;
    for (const RunData* run : runs) {
      const std::optional<double> value = of(*run);
      if (!value || !std::isfinite(*value)) return {};
      sum += *value;
    }
    const double count = static_cast<double>(runs.size());
    for (const RunData* run : runs) squares += std::pow(*of(*run) - sum / count, 2);
    return {sum / count, count > 1 ? std::sqrt(squares / (count - 1)) : 0};
  }
};

std::vector<Row> rows_of(const std::vector<RunData>& runs) {
  const std::vector<std::string> labels = label_groups(runs);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto row = std::ranges::find(rows, labels[i], &Row::label);
    if (row == rows.end()) row = rows.insert(rows.end(), Row{labels[i], {}});
    row->runs.push_back(&runs[i]);
  }
  return rows;
}

/// One figure of a run: its name for programs, its heading, its value and how that is written.
struct Column {
  std::string name;
  std::string heading;
  std::function<std::optional<double>(const RunData&)> of;
  std::string (*write)(double);
};

std::string four_digits(double value) { return fmt::format("{:.4f}", value); }
std::string percent(double value) { return fmt::format("{:.2f} %", 100 * value); }
std::string milliseconds(double value) { return fmt::format("{:.2f}", 1e3 * value); }

std::vector<Column> columns_for(const std::string& metric,
                                const std::optional<double>& target) {
  const auto time = [](double StepTimes::*part) {
    return [part](const RunData& run) { return std::optional(run.times.*part); };
  };
  std::vector<Column> columns{
      {"metric", metric, [](const RunData& run) { return run.metric; }, four_digits},
      {"test_loss", "test loss", [](const RunData& run) { return run.test_loss; },
       four_digits},
      {"train_loss", "train loss", [](const RunData& run) { return run.train_loss; },
       four_digits},
      {"sent_bytes_per_step", "sent/step",
       [](const RunData& run) { return std::optional(run.bytes_per_step()); },
       bytes_text},
      {"share_of_dense", "of dense",
       [](const RunData& run) {
         return std::optional(run.bytes_per_step() /
                              run.run.value("dense_bytes_per_step", 0.0));
       },
       percent},
      {"step_seconds", "step ms", time(&StepTimes::seconds), milliseconds},
      {"compute_seconds", "compute", time(&StepTimes::compute), milliseconds},
      {"select_seconds", "select", time(&StepTimes::select), milliseconds},
      {"exchange_seconds", "exchange", time(&StepTimes::exchange), milliseconds},
      {"wait_seconds", "wait", time(&StepTimes::wait), milliseconds},
      {"exposed_seconds", "exposed", time(&StepTimes::exposed), milliseconds},
      {"seconds", "time", [](const RunData& run) { return std::optional(run.seconds); },
       duration_text},
  };
  if (!target) return columns;
  const double value = *target;
  columns.push_back({"seconds_to_target", fmt::format("to {}", value),
                     [value](const RunData& run) -> std::optional<double> {
                       const auto reached = run.reached(value);
                       return reached ? std::optional(reached->seconds) : std::nullopt;
                     },
                     duration_text});
  columns.push_back({"bytes_to_target", "sent till then",
                     [value](const RunData& run) -> std::optional<double> {
                       const auto reached = run.reached(value);
                       return reached ? std::optional(reached->bytes) : std::nullopt;
                     },
                     bytes_text});
  return columns;
}

std::string metric_of(const std::vector<RunData>& runs) {
  for (const RunData& run : runs)
    if (!run.metric_name.empty()) return run.metric_name;
  return "metric";
}

std::string cell(const Row& row, const Column& column) {
  const Mean mean = row.mean(column.of);
  if (!mean.value) return "-";
  std::string text = column.write(*mean.value);
  if (column.name == "metric" && row.runs.size() > 1)
    text += fmt::format(" +- {:.4f}", mean.deviation);
  return text;
}

}  // namespace

std::string comparison_table(const std::vector<RunData>& runs,
                             const std::optional<double>& target) {
  const std::vector<Row> rows = rows_of(runs);
  const std::vector<Column> columns = columns_for(metric_of(runs), target);
  std::vector<std::vector<std::string>> cells(rows.size() + 1);
  cells[0].push_back("");
  for (const Column& column : columns) cells[0].push_back(column.heading);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    cells[i + 1].push_back(rows[i].label);
    for (const Column& column : columns) cells[i + 1].push_back(cell(rows[i], column));
  }
  std::string text;
  for (const auto& line : cells) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : cells) width = std::max(width, other[c].size());
      text += c == 0 ? fmt::format("{:<{}}", line[c], width)
                     : fmt::format("  {:>{}}", line[c], width);
    }
    text += "\n";
  }
  return text;
}

Json comparison_json(const std::vector<RunData>& runs,
                     const std::optional<double>& target) {
  const std::string metric = metric_of(runs);
  Json results = Json::array();
  for (const Row& row : rows_of(runs)) {
    Json one{{"run", row.label}, {"seeds", row.runs.size()}};
    for (const Column& column : columns_for(metric, target)) {
      const Mean mean = row.mean(column.of);
      one[column.name] = mean.value ? Json(*mean.value) : Json();
      if (column.name == "metric") one["metric_deviation"] = mean.deviation;
    }
    results.push_back(std::move(one));
  }
  return {{"metric", metric}, {"results", std::move(results)}};
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/traffic_matrix.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "transports/control_channel.h"

namespace topknot::cli {
namespace {

using Rows = std::vector<std::vector<double>>;

double sum(const std::vector<double>& row) {
  return std::accumulate(row.begin(), row.end(), 0.0);
}

std::size_t largest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

std::vector<double> row_sums(const Rows& rows) {
  std::vector<double> sums;
  for (const auto& row : rows) sums.push_back(sum(row));
  return sums;
}

bool is_square(const Rows& rows, std::size_t size) {
  return rows.size() == size &&
         std::ranges::all_of(rows, [&](const auto& row) { return row.size() == size; });
}

}  // namespace

TrafficMatrix gather_traffic(Transport& link, const Traffic& mine, std::uint64_t steps) {
  const auto ranks = static_cast<std::size_t>(link.size());
  std::vector<double> all;
  const auto append = [&](const auto& values) {
    for (std::size_t i = 0; i < ranks; ++i)
      all.push_back(i < values.size() ? static_cast<double>(values[i]) : 0.0);
  };
  append(mine.bytes_to);
  append(mine.messages_to);
  append(mine.wait_seconds_for);
  TrafficMatrix matrix;
  matrix.steps = steps;
  for (const auto& row : ControlChannel(link).gather_at_0(all, all.size())) {
    const auto part = [&](std::size_t which) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(which * ranks);
      return std::vector<double>(first, first + static_cast<std::ptrdiff_t>(ranks));
    };
    matrix.bytes.push_back(part(0));
    matrix.messages.push_back(part(1));
    matrix.wait_seconds.push_back(part(2));
  }
  return matrix;
}

nlohmann::ordered_json to_json(const TrafficMatrix& matrix) {
  return {{"steps", matrix.steps},
          {"bytes", matrix.bytes},
          {"messages", matrix.messages},
          {"wait_seconds", matrix.wait_seconds}};
}

TrafficMatrix traffic_in(const nlohmann::ordered_json& json) {
  TrafficMatrix matrix;
  try {
    matrix.steps = json.at("steps").get<std::uint64_t>();
    matrix.bytes = json.at("bytes").get<Rows>();
    matrix.messages = json.at("messages").get<Rows>();
    matrix.wait_seconds = json.at("wait_seconds").get<Rows>();
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  const std::size_t ranks = matrix.bytes.size();
  const bool whole = matrix.steps > 0 && is_square(matrix.bytes, ranks) &&
                     is_square(matrix.messages, ranks) &&
                     is_square(matrix.wait_seconds, ranks);
  return whole ? matrix : TrafficMatrix{};
}

std::string describe_imbalance(const TrafficMatrix& matrix) {
  const std::vector<double> sent = row_sums(matrix.bytes);
  const double all = sum(sent);
  if (all <= 0) return "";
  const std::size_t most = largest(sent);
  return fmt::format("rank {} sent most, {:.2f} times the mean", most,
                     sent[most] * static_cast<double>(sent.size()) / all);
}

std::string describe_waits(const TrafficMatrix& matrix) {
  const std::vector<double> waited = row_sums(matrix.wait_seconds);
  if (sum(waited) <= 0 || matrix.steps == 0) return "";
  const std::size_t who = largest(waited);
  const std::size_t whom = largest(matrix.wait_seconds[who]);
  const double scale = 1e3 / static_cast<double>(matrix.steps);
  return fmt::format(
      "rank {} waited longest, most of it for rank {}: {:.2f} of {:.2f} ms a step", who,
      whom, matrix.wait_seconds[who][whom] * scale, waited[who] * scale);
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/quantity.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "topknot/error.h"

namespace topknot::cli {
namespace {

using Units = std::initializer_list<std::pair<std::string_view, double>>;

/// The number at the begin of `text`, times its unit.
std::optional<double> parse(std::string_view text, Units units) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  const std::string_view unit(end,
                              static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [name, factor] : units)
    if (unit == name) return number * factor;
  return std::nullopt;
}

}  // namespace

double parse_count(const std::string& text) {
  const auto x = parse(
      text,
      {{"", 1}, {"K", 1e3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"T", 1e12}});
  if (x && *x >= 1) return std::floor(*x);
  throw ConfigError(
      fmt::format("{} is no number of parameters; write it as 14.7M or 110M.", text));
}

double parse_gbps(const std::string& text) {
  const auto x = parse(text, {{"", 1},
                              {"Gbps", 1},
                              {"Gb/s", 1},
                              {"Gbit", 1},
                              {"gbit", 1},
                              {"Mbps", 1e-3},
                              {"Mb/s", 1e-3},
                              {"Mbit", 1e-3},
                              {"mbit", 1e-3}});
  if (x && *x > 0) return *x;
  throw ConfigError(
      fmt::format("{} is no bandwidth; write it as 1Gbps or 100Mbps.", text));
}

double parse_seconds(const std::string& text) {
  const auto x =
      parse(text, {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}});
  if (x && *x >= 0) return *x;
  throw ConfigError(fmt::format("{} is no time; write it as 20us, 1.5ms or 0.1s.", text));
}

}  // namespace topknot::cli

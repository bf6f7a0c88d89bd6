// SPDX-License-Identifier: Apache-2.0
#include "cli/quantity.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "topknot/error.h"

namespace topknot::cli {
namespace {

constexpr double kMost = 1e15;  // every whole number up to it is a double

using Units = std::initializer_list<std::pair<std::string_view, double>>;

/// The number at the beginning of `text`, times its unit.
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

std::uint64_t parse_count(std::string_view flag, std::string_view text,
                          std::uint64_t least) {
  const auto x = parse(text, {{"", 1},
                              {"k", 1e3},
                              {"K", 1e3},
                              {"M", 1e6},
                              {"G", 1e9},
                              {"B", 1e9},
                              {"T", 1e12},
                              {"Ki", 0x1p10},
                              {"Mi", 0x1p20},
                              {"Gi", 0x1p30}});
  // 2.3 * 1e6 is one rounding away from a whole number.
  const double whole = x ? std::nearbyint(*x) : -1;
  if (whole >= static_cast<double>(least) && whole <= kMost &&
      std::abs(*x - whole) <= 1e-15 * whole)
    return static_cast<std::uint64_t>(whole);
  throw ConfigError(fmt::format(
      "{} {} is not a count{}; 4096, 64k, 14.7M and 4Mi (4 x 1048576) would be.", flag,
      text, least > 0 ? fmt::format(" of {} or more", least) : ""));
}

std::vector<std::uint64_t> parse_counts(std::string_view flag, std::string_view text) {
  std::vector<std::uint64_t> counts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    counts.push_back(parse_count(flag, text.substr(start, end - start)));
    start = end + 1;
  }
  return counts;
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

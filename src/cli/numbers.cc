// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace topknot::cli {

std::vector<std::string> split_specs(std::string_view text) {
  std::vector<std::string> specs;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view word = text.substr(start, end - start);
    const bool parameter = word.find('=') < word.find(':');
    if (parameter && !specs.empty()) {
      specs.back().append(",").append(word);
    } else {
      specs.emplace_back(word);
    }
    start = end + 1;
  }
  return specs;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double at_least_one(std::uint64_t count) {
  return static_cast<double>(std::max<std::uint64_t>(count, 1));
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string counted(std::uint64_t number, const char* what) {
  return fmt::format("{} {}{}", with_commas(number), what, number == 1 ? "" : "s");
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

}  // namespace topknot::cli

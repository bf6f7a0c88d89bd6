// SPDX-License-Identifier: Apache-2.0
#include "cli/record_options.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/help.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

constexpr std::size_t kMost = 100'000;  // numbers in a list

[[noreturn]] void refuse(const char* flag, const std::string& text) {
  throw ConfigError(fmt::format(
      "{} {} is not a list of numbers; 0,10,100-103 would be one.", flag, text));
}

/// "0,10,100-103" in its order.
std::vector<std::uint64_t> numbers(const char* flag, const std::string& text) {
  std::vector<std::uint64_t> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    std::uint64_t value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value > INT32_MAX) refuse(flag, text);
    at = after;
    return value;
  };
  while (at != end) {
    const std::uint64_t first = number();
    std::uint64_t last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first || all.size() + (last - first) >= kMost) refuse(flag, text);
    for (std::uint64_t one = first; one <= last; ++one) all.push_back(one);
    if (at == end) break;
    if (*at != ',' || at + 1 == end) refuse(flag, text);
    ++at;
  }
  return all;
}

}  // namespace

void RecordFlags::add_to(CLI::App& command) {
  command
      .add_option("--record-gradients", file,
                  "Write each rank's own gradients to this file, for bench")
      ->type_name("FILE")
      ->group(kAlso);
  command
      .add_option("--record-steps", steps,
                  "Of these steps, as 0,10,100-103; the first, middle and last unless "
                  "given")
      ->type_name("LIST")
      ->group(kAlso);
  command.add_option("--record-ranks", ranks, "Of these ranks; all unless given")
      ->type_name("LIST")
      ->group(kAlso);
}

train::RecordOptions RecordFlags::options() const {
  if (file.empty() && !(steps.empty() && ranks.empty()))
    throw ConfigError(
        fmt::format("{} needs --record-gradients FILE, where they are written.",
                    steps.empty() ? "--record-ranks" : "--record-steps"));
  train::RecordOptions options;
  options.file = file;
  options.steps = numbers("--record-steps", steps);
  for (const std::uint64_t rank : numbers("--record-ranks", ranks))
    options.ranks.push_back(static_cast<int>(rank));
  return options;
}

std::string about_record(const RecordFlags& flags, const train::Outcome& outcome) {
  if (flags.file.empty()) return "";
  if (outcome.recorded_steps == 0)
    return fmt::format(
        "The run ended before a step that was to be recorded, so there is no {}.",
        flags.file);
  return fmt::format("The gradients of {} {} are in {}.", outcome.recorded_steps,
                     outcome.recorded_steps == 1 ? "step" : "steps", flags.file);
}

}  // namespace topknot::cli

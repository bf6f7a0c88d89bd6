// SPDX-License-Identifier: Apache-2.0
//
// How the commands that train take changes of a job: --set key=value, and flags that stand for the
// keys of every day.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/job.h"

namespace topknot::cli {

// Groups of a help page.
inline constexpr const char* kJobGroup = "The job";
inline constexpr const char* kExchangeGroup = "The exchange";
inline constexpr const char* kRunGroup = "The run";

class JobSettings {
 public:
  /// Adds --set and the flags of all keys but `left_out` to the command, which this object must
  /// outlive.
  void add_to(CLI::App& command, std::span<const std::string_view> left_out = {});

  /// Throws ConfigError where a flag and --set contradict each other.
  void check() const;
  /// Sets the keys of `job`, those of --set first. Throws ConfigError for what cannot be.
  void apply_to(train::Job& job) const;
  /// The number of workers, where one was given.
  std::optional<int> workers() const;

 private:
  std::vector<std::string> all() const;

  std::vector<std::string> set_;                            // key=value, of --set
  std::vector<std::pair<std::string, std::string>> flags_;  // as given, and its key=value
};

/// Whether this is a flag that JobSettings adds for a key.
bool stands_for_a_key(std::string_view flag);

}  // namespace topknot::cli

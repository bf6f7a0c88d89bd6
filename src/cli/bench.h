// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks share: their options, gradients to work on, and medians.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/progress.h"
#include "topknot/layout.h"

namespace topknot::cli {

using Json = nlohmann::ordered_json;

/// n, density and --json, which every benchmark takes.
struct Problem {
  std::uint64_t n = 0;
  double density = 0.01;
  bool json = false;

  void add_to(CLI::App& command, std::uint64_t default_n);
  /// Throws ConfigError when a value cannot be.
  void check() const;
  std::size_t k() const;
};

/// `names` as given by --collective or --compressor: "name:key=value", several with commas
/// between them, or "all".
std::vector<std::string> expand(const std::vector<std::string>& given,
                                const std::vector<std::string>& all);

/// A layout like a model's: a matrix of 4096 rows, and the rest as a vector behind it.
Layout bench_layout(std::uint64_t n);

double median(std::vector<double> times);

inline double seconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks share: their options, gradients to work on, medians, and a progress
// bar.
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

/// `names` as given by --collective or --compressor: a list of "name:key=value", or
/// "all".
std::vector<std::string> expand(const std::vector<std::string>& given,
                                const std::vector<std::string>& all);

/// Fills `x` with Laplace numbers: `correlation` of the stream that all ranks share, the
/// rest of this one's own.
void fill_gradient(std::span<float> x, int rank, int which, double correlation);

/// A layout like a model's: a matrix of 4096 rows, and the rest as a vector behind it.
Layout bench_layout(std::uint64_t n);

double median(std::vector<double> times);

inline double seconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A bar on the terminal's error output; nothing where that is not a terminal.
class Progress {
 public:
  Progress(std::string_view title, std::size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// One more is done. The bar appears when the work takes over two seconds.
  void step();
  /// So many are done; `note` stands behind the bar, as far as it fits. Drawn a few times a
  /// second at most, but always when all is done.
  void show(std::size_t done, std::string_view note);
  /// Takes the bar away, until it is drawn again.
  void clear();
  bool terminal() const { return terminal_; }

 private:
  void draw(std::string_view note);

  const std::string title_;
  const std::size_t steps_;
  std::size_t done_ = 0;
  bool shown_ = false;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace topknot::cli

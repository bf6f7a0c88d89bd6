// SPDX-License-Identifier: Apache-2.0
#include "cli/bench.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cli/commands.h"
#include "core/random.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

namespace topknot::cli {

void Problem::add_to(CLI::App& command, std::uint64_t default_n) {
  n = default_n;
  command.add_option("--n", n, "Length of the vector")->capture_default_str();
  command.add_option("--density", density, "Share of it that is sent, in (0, 1]")
      ->capture_default_str();
  command.add_flag("--json", json, "Print one JSON object");
}

void Problem::check() const {
  if (n == 0) throw ConfigError("--n 0 leaves nothing to send; take 1 or more.");
  if (n > std::numeric_limits<std::uint32_t>::max())
    throw ConfigError(fmt::format("--n {} is too long for one bucket; take at most {}.",
                                  n, std::numeric_limits<std::uint32_t>::max()));
  if (!(density > 0 && density <= 1))
    throw ConfigError(fmt::format(
        "--density {} is not in (0, 1]; 0.01 sends one coordinate in a hundred.",
        density));
}

std::size_t Problem::k() const { return coordinates_for(n, density); }

std::vector<std::string> expand(const std::vector<std::string>& given,
                                const std::vector<std::string>& all) {
  std::vector<std::string> names;
  for (const std::string& one : given) {
    if (one == "all") {
      names.insert(names.end(), all.begin(), all.end());
    } else {
      names.push_back(one);
    }
  }
  return names;
}

void fill_gradient(std::span<float> x, int rank, int which, double correlation) {
  core::Random common(1000 + static_cast<std::uint64_t>(which));
  core::Random own(1000 * (static_cast<std::uint64_t>(rank) + 2) +
                   static_cast<std::uint64_t>(which));
  const auto shared = static_cast<float>(correlation);
  for (float& value : x) value = shared * common.laplace() + (1 - shared) * own.laplace();
}

Layout bench_layout(std::uint64_t n) {
  constexpr std::uint64_t kRows = 4096;
  const std::uint64_t columns = n / kRows;
  if (columns == 0) return Layout::flat(n);
  Layout layout{{{"matrix", 0, {kRows, columns}}}};
  if (n % kRows != 0) layout.tensors.push_back({"rest", kRows * columns, {n % kRows}});
  return layout;
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return times.empty() ? 0 : *middle;
}

Progress::Progress(std::string_view title, std::size_t steps)
    : title_(title),
      steps_(steps),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void Progress::step() {
  ++done_;
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  if (terminal_ && elapsed >= std::chrono::seconds(2)) draw("");
}

void Progress::show(std::size_t done, std::string_view note) {
  done_ = done;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || (done < steps_ && now - drawn_ < std::chrono::milliseconds(200)))
    return;
  drawn_ = now;
  draw(note);
}

void Progress::draw(std::string_view note) {
  constexpr std::size_t kWidth = 30;
  shown_ = true;
  winsize window = {};
  ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
  const std::size_t columns = window.ws_col > 1 ? window.ws_col - 1U : 79U;
  const std::size_t width = note.empty() ? kWidth : kWidth / 2;
  const std::size_t filled =
      width * std::min(done_, steps_) / std::max<std::size_t>(steps_, 1);
  const std::string title =
      note.empty() ? fmt::format("{:<{}}", title_, kWidth) : std::string(title_);
  const std::string line =
      fmt::format("{} [{:<{}}] {}/{} {}", title, std::string(filled, '#'), width, done_,
                  steps_, note);
  fmt::print(stderr, "\r{}\033[K", std::string_view(line).substr(0, columns));
  std::fflush(stderr);
}

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure, after checking the result");
  bench->require_subcommand(1);
  add_bench_select(*bench, exit_code);
  add_bench_step(*bench, exit_code);
  add_bench_wire(*bench, exit_code);
  add_bench_allreduce(*bench, exit_code);
}

}  // namespace topknot::cli

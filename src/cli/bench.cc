// SPDX-License-Identifier: Apache-2.0
#include "cli/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/numbers.h"
#include "cli/quantity.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

namespace topknot::cli {

void Problem::add_to(CLI::App& command, std::uint64_t default_n) {
  n = default_n;
  command
      .add_option_function<std::string>(
          "--n", [this](const std::string& text) { n = parse_count("--n", text); },
          "Length of the vector, as 4096, 1M or 4Mi")
      ->type_name("COUNT")
      ->default_str(std::to_string(default_n));
  command.add_option("--density", density, "Share of it that is sent, in (0, 1]")
      ->type_name("SHARE")
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
  for (const std::string& word : given)
    for (const std::string& one : split_specs(word)) {
      if (one == "all") {
        names.insert(names.end(), all.begin(), all.end());
      } else {
        names.push_back(one);
      }
    }
  return names;
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

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure, after checking the result");
  bench->require_subcommand(0, 1);
  add_examples(*bench, "bench allreduce --workers 4 --n 1M --collective knot,oktopk",
               "bench select --n 32Mi --density 0.01");
  add_bench_select(*bench, exit_code);
  add_bench_step(*bench, exit_code);
  add_bench_wire(*bench, exit_code);
  add_bench_allreduce(*bench, exit_code);
  add_bench_sum(*bench, exit_code);
}

}  // namespace topknot::cli

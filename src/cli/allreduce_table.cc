// SPDX-License-Identifier: Apache-2.0
//
// What bench allreduce prints; docs/benchmarks.md defines every column. The columns of nccl-tests
// are as they are there, so that programs which read those can read these.
#include "cli/allreduce_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/numbers.h"
#include "topknot/schedule.h"

namespace topknot::cli {
namespace {

using Options = AllreduceOptions;
using Row = AllreduceRow;
using Block = AllreduceBlock;

Json to_json(const Row& row) {
  return {{"collective", row.collective},
          {"parameters", row.parameters},
          {"n", row.n},
          {"seconds", row.seconds},
          {"seconds_p99", row.seconds_p99},
          {"sent_bytes_max", row.sent_bytes_max},
          {"sent_bytes_mean", row.sent_bytes_mean},
          {"messages_max", row.messages_max},
          {"sum_nnz", row.sum_nnz},
          {"lost", row.lost},
          {"agree", row.agree},
          {"vs_dense", row.vs_dense},
          {"select_seconds", row.select_seconds},
          {"wait_seconds", row.wait_seconds}};
}

std::string name_of(const Row& row) {
  return row.parameters.empty() ? row.collective : row.collective + ":" + row.parameters;
}

/// time = alpha + beta x bytes of the vector, where the relative errors are least.
struct Fit {
  std::string name;
  double alpha = 0;  // seconds
  double beta = 0;   // seconds a byte
};

Fit fit(const std::vector<Block>& blocks, std::size_t which) {
  Fit found{.name = name_of(blocks[0][which])};
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const Block& block : blocks) {
    const double x = static_cast<double>(block[which].n) * sizeof(float);
    const double y = block[which].seconds;
    const double weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  found.beta = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  found.alpha = (wy - found.beta * wx) / w;
  return found;
}

/// By collective, where there are lengths to fit to. The baseline may be another at each length.
std::vector<Fit> fits(const std::vector<Block>& blocks) {
  std::vector<Fit> all;
  for (std::size_t i = 1; blocks.size() > 1 && i < blocks[0].size(); ++i)
    all.push_back(fit(blocks, i));
  return all;
}

std::string network_text(const Options& options) {
  if (under_launcher()) return "that between the launcher's processes";
  if (options.launch.network)
    return fmt::format(
        "a model of {} between threads: each message is held back as long as "
        "it would take",
        options.link);
  return "none: threads share memory, so there is nothing to win; --link 1gbit,50us "
         "models one";
}

Json to_json(const Options& options, int ranks, const std::vector<Block>& blocks) {
  Json results = Json::array();
  Json baselines = Json::array();
  Json fitted = Json::array();
  for (const Block& block : blocks) {
    baselines.push_back(to_json(block[0]));
    for (std::size_t i = 1; i < block.size(); ++i) results.push_back(to_json(block[i]));
  }
  for (const Fit& one : fits(blocks))
    fitted.push_back({{"collective", one.name},
                      {"alpha_seconds", one.alpha},
                      {"beta_seconds_per_byte", one.beta}});
  return {{"ranks", ranks},
          {"network", network_text(options)},
          {"n", options.problem.n},
          {"density", options.problem.density},
          {"k", options.problem.k()},
          {"gradients", options.gradients.about()},
          {"baseline", baselines.size() == 1 ? baselines[0] : baselines},
          {"results", results},
          {"fits", fitted}};
}

std::string gradients_text(const Options& options) {
  return options.gradients.recorded()
             ? options.gradients.summary()
             : fmt::format("correlation {}", options.correlation);
}

void print_header(const Options& options, int ranks) {
  fmt::print("# topknot {} bench allreduce: {} ranks, {} steps, {}\n", TOPKNOT_VERSION,
             ranks, options.steps, gradients_text(options));
  fmt::print("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>32}  {:>32}\n", "", "", "", "",
             "", "out-of-place           ", "in-place           ");
  fmt::print(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  "
      "{:>6}  {:>6}  {:>6}  {:<24}  {:>8}  {:>9}  {:>8}  {:>8}  {:>8}  {:>10}  "
      "{:>10}  {:>5}  {:>6}  {:>8}\n",
      "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
      "time", "algbw", "busbw", "#wrong", "algo", "density", "k", "select", "comm",
      "scatter", "sent_B", "recv_B", "msgs", "link", "vs_dense");
  fmt::print(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  "
      "{:>6}  {:>6}  {:>6}  {:<24}  {:>8}  {:>9}  {:>8}  {:>8}  {:>8}  {:>10}  "
      "{:>10}  {:>5}  {:>6}  {:>8}\n",
      "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
      "(GB/s)", "", "", "", "", "(us)", "(us)", "(us)", "(B)", "(B)", "", "(GB/s)", "");
}

void print_row(const Options& options, int ranks, const Row& row) {
  const double bytes = static_cast<double>(row.n) * sizeof(float);
  const double algbw = bytes / 1e9 / row.seconds;
  const double busbw = algbw * 2 * (ranks - 1) / ranks;
  const double moved = std::max(row.sent_bytes_max, row.received_bytes_max);
  const double rest = row.seconds - row.select_seconds - row.wait_seconds;
  const std::string timed = fmt::format("{:>7.0f}  {:>6.2f}  {:>6.2f}  {:>6}",
                                        1e6 * row.seconds, algbw, busbw, row.wrong);
  const std::string none =
      fmt::format("{:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  const bool in_place = options.in_place || row.collective == "dense";
  fmt::print(
      "  {:>10.0f}  {:>12}  {:>8}  {:>6}  {:>6}  {}  {}  {:<24}  {:>8.6f}  {:>9}  "
      "{:>8.0f}  {:>8.0f}  {:>8.0f}  {:>10.0f}  {:>10.0f}  {:>5.0f}  {:>6.2f}  "
      "{:>7.2f}x\n",
      bytes, row.n, "float", "sum", -1, in_place ? none : timed, in_place ? timed : none,
      name_of(row), options.problem.density,
      coordinates_for(row.n, options.problem.density), 1e6 * row.select_seconds,
      1e6 * row.wait_seconds, 1e6 * std::max(rest, 0.0), row.sent_bytes_max,
      row.received_bytes_max, row.messages_max,
      row.wait_seconds > 0 ? moved / 1e9 / row.wait_seconds : 0, row.vs_dense);
}

std::string time_text(double seconds) {
  return seconds < 0.01 ? fmt::format("{:.0f} us", 1e6 * seconds)
                        : fmt::format("{:.1f} ms", 1e3 * seconds);
}

void print_block(const Options& options, const Block& block) {
  const std::uint64_t n = block[0].n;
  fmt::print("# {} values, {}; {} wanted\n", with_commas(n),
             bytes_text(static_cast<double>(n) * sizeof(float)),
             with_commas(coordinates_for(n, options.problem.density)));
  for (std::size_t i = 0; i < block.size(); ++i) {
    const Row& row = block[i];
    const std::string name = i == 0 ? name_of(row) + " (baseline)" : name_of(row);
    fmt::print("  {:<34}{:>11}{:>11}{:>11}{:>7.0f}{:>12}{:>9.2f}x\n", name,
               time_text(row.seconds), time_text(row.seconds_p99),
               bytes_text(row.sent_bytes_max), row.messages_max,
               with_commas(static_cast<std::uint64_t>(row.sum_nnz)), row.vs_dense);
    if (!row.agree)
      fmt::print("# {}: the ranks do not agree on the sum\n", row.collective);
    if (row.wrong > 0)
      fmt::print("# {}: {} coordinates are lost\n", row.collective, row.wrong);
  }
}

void print_table(const Options& options, int ranks, const std::vector<Block>& blocks) {
  fmt::print("# topknot {} bench allreduce: {} ranks, density {}, {} steps, {}\n",
             TOPKNOT_VERSION, ranks, options.problem.density, options.steps,
             gradients_text(options));
  fmt::print("# network: {}\n", network_text(options));
  fmt::print("# {:<34}{:>11}{:>11}{:>11}{:>7}{:>12}{:>10}\n", "collective", "time p50",
             "p99", "sent", "msgs", "in the sum", "vs dense");
  for (const Block& block : blocks) print_block(options, block);
  for (const Fit& one : fits(blocks))
    fmt::print("# {}: alpha {} + beta {:.3g} ns a byte of the vector\n", one.name,
               time_text(one.alpha), 1e9 * one.beta);
}

void print_nccl(const Options& options, int ranks, const std::vector<Block>& blocks) {
  print_header(options, ranks);
  std::uint64_t wrong = 0;
  for (const Block& block : blocks)
    for (const Row& row : block) {
      print_row(options, ranks, row);
      wrong += row.wrong;
      if (!row.agree)
        fmt::print("# {}: the ranks do not agree on the sum\n", row.collective);
    }
  fmt::print("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
}

}  // namespace

void print_results(const Options& options, int ranks, const std::vector<Block>& blocks) {
  if (options.problem.json)
    return fmt::print("{}\n", to_json(options, ranks, blocks)
                                  .dump(2, ' ', false, Json::error_handler_t::replace));
  options.nccl_columns ? print_nccl(options, ranks, blocks)
                       : print_table(options, ranks, blocks);
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
//
// bench allreduce: its options and what it prints. nccl-tests' columns come first and
// unchanged, so that programs which read those can read this; docs/benchmarks.md defines
// every column.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "cli/allreduce_steps.h"
#include "cli/commands.h"
#include "topknot/catalog.h"

namespace topknot::cli {
namespace {

using Options = AllreduceOptions;
using Row = AllreduceRow;

Json to_json(const Options& options, int ranks, const std::vector<Row>& rows) {
  Json results = Json::array();
  for (const Row& row : rows)
    results.push_back({{"collective", row.collective},
                       {"parameters", row.parameters},
                       {"seconds", row.seconds},
                       {"sent_bytes_max", row.sent_bytes_max},
                       {"sent_bytes_mean", row.sent_bytes_mean},
                       {"messages_max", row.messages_max},
                       {"sum_nnz", row.sum_nnz},
                       {"lost", row.lost},
                       {"agree", row.agree},
                       {"vs_dense", row.vs_dense},
                       {"select_seconds", row.select_seconds},
                       {"wait_seconds", row.wait_seconds}});
  return {{"ranks", ranks},
          {"n", options.problem.n},
          {"density", options.problem.density},
          {"k", options.problem.k()},
          {"gradients", options.gradients.about()},
          {"results", results}};
}

void print_header(const Options& options, int ranks) {
  const std::string gradients = options.gradients.recorded()
                                    ? options.gradients.summary()
                                    : fmt::format("correlation {}", options.correlation);
  fmt::print("# topknot {} bench allreduce: {} ranks, {} steps, {}\n", TOPKNOT_VERSION,
             ranks, options.steps, gradients);
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
  const double bytes = static_cast<double>(options.problem.n) * sizeof(float);
  const double algbw = bytes / 1e9 / row.seconds;
  const double busbw = algbw * 2 * (ranks - 1) / ranks;
  const double moved = std::max(row.sent_bytes_max, row.received_bytes_max);
  const double rest = row.seconds - row.select_seconds - row.wait_seconds;
  const std::string timed = fmt::format("{:>7.0f}  {:>6.2f}  {:>6.2f}  {:>6}",
                                        1e6 * row.seconds, algbw, busbw, row.wrong);
  const std::string none =
      fmt::format("{:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  const bool in_place = row.collective == "dense";
  fmt::print(
      "  {:>10.0f}  {:>12}  {:>8}  {:>6}  {:>6}  {}  {}  {:<24}  {:>8.6f}  {:>9}  "
      "{:>8.0f}  {:>8.0f}  {:>8.0f}  {:>10.0f}  {:>10.0f}  {:>5.0f}  {:>6.2f}  "
      "{:>7.2f}x\n",
      bytes, options.problem.n, "float", "sum", -1, in_place ? none : timed,
      in_place ? timed : none,
      row.parameters.empty() ? row.collective : row.collective + ":" + row.parameters,
      options.problem.density, options.problem.k(), 1e6 * row.select_seconds,
      1e6 * row.wait_seconds, 1e6 * std::max(rest, 0.0), row.sent_bytes_max,
      row.received_bytes_max, row.messages_max,
      row.wait_seconds > 0 ? moved / 1e9 / row.wait_seconds : 0, row.vs_dense);
}

void print_table(const Options& options, int ranks, const std::vector<Row>& rows) {
  print_header(options, ranks);
  std::uint64_t wrong = 0;
  for (const Row& row : rows) {
    print_row(options, ranks, row);
    wrong += row.wrong;
    if (!row.agree)
      fmt::print("# {}: the ranks do not agree on the sum\n", row.collective);
  }
  fmt::print("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
}

int run(Options& options) {
  options.gradients.open(options.problem);
  std::vector<std::string> all;
  for (const CollectiveEntry& entry : collectives()) all.emplace_back(entry.name);
  const std::vector<std::string> names = expand(options.collectives, all);
  check(options, names);
  int exit_code = kDone;
  run_ranks(options.launch, 4, [&](Transport& link) {
    const std::vector<Row> rows = run_rank(link, options, names);
    if (link.rank() != 0) return;
    if (options.problem.json) {
      fmt::print("{}\n", to_json(options, link.size(), rows)
                             .dump(2, ' ', false, Json::error_handler_t::replace));
    } else {
      print_table(options, link.size(), rows);
    }
    if (!std::all_of(rows.begin(), rows.end(),
                     [](const Row& row) { return row.correct(); }))
      exit_code = kCheckFailed;
  });
  return exit_code;
}

}  // namespace

void add_bench_allreduce(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "allreduce",
      "Whole steps of each collective, checked first; on threads or under mpirun");
  options->problem.add_to(*command, 1 << 22);
  command->add_option("--workers", options->launch.workers,
                      "Ranks, as threads; 4 unless given. Under mpirun, its own number");
  command
      ->add_option("--collective", options->collectives, "Names with parameters, or all")
      ->capture_default_str();
  command->add_option("--compressor", options->compressor,
                      "Name with parameters; the collective's own unless given");
  command->add_option("--steps", options->steps, "Steps to time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command->add_option("--warm-up", options->warm_up, "Steps before those")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command
      ->add_option("--correlation", options->correlation,
                   "Share of the gradient that is common to all ranks")
      ->capture_default_str();
  options->gradients.add_to(*command);
  command
      ->add_option("--timeout", options->launch.link.timeout,
                   "Seconds after which a silent rank ends the run")
      ->capture_default_str()
      ->envname("TOPKNOT_TIMEOUT")
      ->check(CLI::PositiveNumber);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
//
// bench allreduce: its options, and the lengths it goes through.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "cli/allreduce_steps.h"
#include "cli/allreduce_table.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/quantity.h"
#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/simulated.h"

namespace topknot::cli {
namespace {

using Options = AllreduceOptions;
using Row = AllreduceRow;

void read_link(Options& options) {
  if (options.link.empty()) return;
  const std::size_t comma = options.link.find(',');
  if (comma == std::string::npos)
    throw ConfigError("--link " + options.link +
                      " has no latency; write it as 1gbit,50us.");
  Network network;
  network.between = line_speed(parse_gbps(options.link.substr(0, comma)),
                               parse_seconds(options.link.substr(comma + 1)),
                               /*overhead=*/0);
  options.launch.network = network;
}

int run(Options& options) {
  read_link(options);
  if (!options.sizes.empty() && options.gradients.recorded())
    throw ConfigError(
        "--sizes cannot be given with --gradients: the file has its own length.");
  options.gradients.open(options.problem);
  if (options.sizes.empty()) options.sizes = {options.problem.n};
  std::vector<std::string> all;
  for (const CollectiveEntry& entry : collectives()) all.emplace_back(entry.name);
  const std::vector<std::string> names = expand(options.collectives, all);
  for (const std::uint64_t n : options.sizes) {
    options.problem.n = n;
    check(options, names);
  }
  int exit_code = kDone;
  run_ranks(options.launch, 4, [&](Transport& link) {
    std::vector<AllreduceBlock> blocks;
    Options one = options;
    for (const std::uint64_t n : options.sizes) {
      one.problem.n = n;
      blocks.push_back(run_rank(link, one, names));
    }
    if (link.rank() != 0) return;
    print_results(options, link.size(), blocks);
    for (const AllreduceBlock& block : blocks)
      if (!std::ranges::all_of(block, &Row::correct)) exit_code = kCheckFailed;
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
      ->add_option("--collective", options->collectives,
                   "Names with parameters, with commas between, or all")
      ->type_name("COLLECTIVE")
      ->capture_default_str();
  command
      ->add_option("--compressor", options->compressor,
                   "Name with parameters; the collective's own unless given")
      ->type_name("COMPRESSOR");
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
  command
      ->add_option(
          "--link", options->link,
          "Hold messages between threads back as such a link would, as 1gbit,50us")
      ->type_name("RATE,LATENCY");
  command
      ->add_option_function<std::string>(
          "--sizes",
          [options = options.get()](const std::string& text) {
            options->sizes = parse_counts("--sizes", text);
          },
          "Lengths instead of --n, as 8,1k,64k,1M; alpha and beta are fitted to them")
      ->type_name("COUNTS");
  command->add_flag("--in-place", options->in_place,
                    "Write sums over the gradient, as training does; dense always does");
  command->add_flag("--nccl-tests", options->nccl_columns,
                    "Print the columns of nccl-tests, and ours behind them");
  options->gradients.add_to(*command);
  add_interface(*command, options->launch.interface);
  command
      ->add_option("--flight", options->launch.flight,
                   "Folder for what ranks that fail did last; `topknot flight` reads it")
      ->type_name("DIR")
      ->group(kAlso);
  command
      ->add_option("--timeout", options->launch.link.timeout,
                   "Seconds after which a silent rank ends the run")
      ->capture_default_str()
      ->envname("TOPKNOT_TIMEOUT")
      ->check(CLI::PositiveNumber);
  add_examples(
      *command, "bench allreduce --n 1M --link 1gbit,50us --collective knot,oktopk",
      "bench allreduce --sizes 8,1k,64k,1M --collective knot:values=bf16 --json");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace topknot::cli

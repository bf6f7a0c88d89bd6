// SPDX-License-Identifier: Apache-2.0
//
// bench wire: how many bits a pair takes on the wire in each coding, against the entropy,
// and how fast it is made, checked for damage and read. Making includes the checksum.
#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "core/random.h"
#include "core/wire/wire.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

using core::Coding;
using core::Format;
using core::Region;
using core::Values;

constexpr Coding kCodings[] = {Coding::automatic, Coding::plain,  Coding::delta,
                               Coding::rice,      Coding::bitmap, Coding::dense};
constexpr double kSlowest = 1.0;  // GB/s; a slower coding is listed only when asked for

struct Options {
  Problem problem;
  std::string coding = "all";
  int steps = 15;
};

/// Each position with probability `density`, with a Laplace value.
Sparse uniform_pairs(std::uint64_t n, double density) {
  Sparse pairs;
  core::Random random(1);
  for (std::uint64_t i = 0; i < n; ++i)
    if (random.uniform() < density)
      pairs.push_back(static_cast<std::uint32_t>(i), random.laplace());
  return pairs;
}

int value_bits(Values values) {
  switch (values) {
    case Values::f32:
      return 32;
    case Values::bf16:
      return 16;
    case Values::i8:
      return 8;
    case Values::i2:
      return 2;
    case Values::none:
      return 0;
  }
  return 0;
}

double entropy_bits(double p, Values values) {
  if (p <= 0 || p >= 1) return value_bits(values);
  return (-p * std::log2(p) - (1 - p) * std::log2(1 - p)) / p + value_bits(values);
}

Json measure(const Sparse& pairs, const Options& options, Format format) {
  const Region region{0, options.problem.n};
  const core::Stamp stamp;
  std::vector<std::byte> message;
  std::vector<float> error(format.values == Values::f32 ? 0 : pairs.size());
  Sparse back;
  core::Decoded said;
  std::vector<double> encoding;
  std::vector<double> checking;
  std::vector<double> decoding;
  for (int step = 0; step < options.steps; ++step) {
    encoding.push_back(seconds_of(
        [&] { core::encode(stamp, pairs, region, format, false, message, error); }));
    checking.push_back(seconds_of([&] {
      if (core::find_damage(message))
        throw ContractError("a message of ours was found to be damaged");
    }));
    decoding.push_back(seconds_of([&] {
      if (core::decode(message, stamp, region, pairs.size(), back, said))
        throw ContractError("a message of ours was not understood");
    }));
  }
  if (back.index != pairs.index || (format.values == Values::f32 && back != pairs))
    throw ContractError(
        fmt::format("{} did not decode to what was encoded", name(format.coding)));
  const auto count = static_cast<double>(pairs.size());
  const double plain_gb = count * 8 / 1e9;
  return {{"coding", name(format.coding)},
          {"values", name(format.values)},
          {"bits_per_pair", static_cast<double>(message.size()) * 8 / count},
          {"entropy_bits_per_pair",
           entropy_bits(count / static_cast<double>(options.problem.n), format.values)},
          {"encode_gbps", plain_gb / median(encoding)},
          {"check_gbps", plain_gb / median(checking)},
          {"decode_gbps", plain_gb / median(decoding)}};
}

Json run(const Options& options) {
  options.problem.check();
  const Sparse pairs = uniform_pairs(options.problem.n, options.problem.density);
  if (pairs.empty())
    throw ConfigError("Not one pair was drawn at this density; take a longer --n.");
  Json results = Json::array();
  for (const Values values : {Values::f32, Values::bf16, Values::i8, Values::i2})
    for (const Coding coding : kCodings) {
      const bool asked = options.coding == name(coding);
      if (options.coding != "all" && !asked) continue;
      const Json one = measure(pairs, options, {coding, values});
      const double speed =
          std::min(one["encode_gbps"].get<double>(), one["decode_gbps"].get<double>());
      if (asked || coding == Coding::plain || speed >= kSlowest) results.push_back(one);
    }
  return {{"n", options.problem.n},
          {"density", options.problem.density},
          {"results", results}};
}

void print(const Json& all) {
  fmt::print("# n {}, density {}; GB/s of plain 8-byte pairs, one thread\n",
             all["n"].get<std::uint64_t>(), all["density"].get<double>());
  fmt::print("# {:<10}{:<8}{:>14}{:>14}{:>14}{:>14}{:>14}\n", "coding", "values",
             "bits/pair", "entropy", "encode GB/s", "check GB/s", "decode GB/s");
  for (const Json& one : all["results"])
    fmt::print("  {:<10}{:<8}{:>14.3f}{:>14.3f}{:>14.2f}{:>14.2f}{:>14.2f}\n",
               one["coding"].get<std::string>(), one["values"].get<std::string>(),
               one["bits_per_pair"].get<double>(),
               one["entropy_bits_per_pair"].get<double>(),
               one["encode_gbps"].get<double>(), one["check_gbps"].get<double>(),
               one["decode_gbps"].get<double>());
}

}  // namespace

void add_bench_wire(CLI::App& bench, int&) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      bench.add_subcommand("wire", "Bits a pair takes in each coding, and how fast");
  options->problem.add_to(*command, 1 << 24);
  command
      ->add_option("--coding", options->coding,
                   "One coding, listed however slow it is; all lists those above 1 GB/s")
      ->type_name("auto|plain|delta|rice|bitmap|dense|all")
      ->capture_default_str()
      ->check(
          CLI::IsMember({"all", "auto", "plain", "delta", "rice", "bitmap", "dense"}));
  command->add_option("--steps", options->steps, "Messages to time")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  add_examples(*command, "bench wire --density 0.01",
               "bench wire --n 1M --coding rice --json");
  command->callback([options] {
    const Json all = run(*options);
    options->problem.json ? fmt::print("{}\n", all.dump(2)) : print(all);
  });
}

}  // namespace topknot::cli

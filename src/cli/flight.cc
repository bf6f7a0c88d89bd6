// SPDX-License-Identifier: Apache-2.0
//
// flight: what the ranks of a run that failed did last.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/flight_merge.h"
#include "cli/help.h"

namespace topknot::cli {
namespace {

struct Options {
  std::string folder;
  bool json = false;
};

/// What a rank did last, in a few words.
std::string last_words(const FlightDump& dump) {
  if (dump.operations.empty()) return "nothing";
  const FlightOperation& last = dump.operations.back();
  const double seconds =
      1e-6 * static_cast<double>(dump.microseconds - last.microseconds);
  if (last.what == "wait")
    return fmt::format("waits for rank {} since {:.3f} s", last.peer, seconds);
  if (last.what == "wait to send")
    return fmt::format("waits for {:.3f} s for rank {} to take a message", seconds,
                       last.peer);
  return fmt::format("{} {} bytes {} rank {} {:.3f} s before",
                     last.what == "send" ? "sent" : "got", last.bytes,
                     last.what == "send" ? "to" : "of", last.peer, seconds);
}

nlohmann::ordered_json to_json(const Flight& flight) {
  nlohmann::ordered_json ranks = nlohmann::json::array();
  for (int rank = 0; rank < flight.ranks; ++rank) {
    const auto found = flight.dumps.find(rank);
    nlohmann::ordered_json one = {{"rank", rank},
                                  {"dumped", found != flight.dumps.end()}};
    if (found != flight.dumps.end()) {
      const FlightDump& dump = found->second;
      one["error"] = dump.error;
      if (!dump.operations.empty()) {
        one["step"] = dump.operations.back().step;
        one["phase"] = dump.operations.back().phase;
        one["channel"] = dump.operations.back().channel;
      }
      if (dump.waits() != nullptr) one["waits_for"] = dump.waits()->peer;
    }
    ranks.push_back(one);
  }
  return {{"divergence", first_divergence(flight)},
          {"ranks", ranks},
          {"notes", flight.notes}};
}

void print_table(const Flight& flight) {
  fmt::print("{:>4} {:>8} {:>7} {:>9}  {}\n", "rank", "step", "phase", "channel", "last");
  for (int rank = 0; rank < flight.ranks; ++rank) {
    const auto found = flight.dumps.find(rank);
    if (found == flight.dumps.end() || found->second.operations.empty()) {
      fmt::print("{:>4} {:>8} {:>7} {:>9}  {}\n", rank, "-", "-", "-",
                 found == flight.dumps.end() ? "left no dump" : "nothing");
      continue;
    }
    const FlightOperation& last = found->second.operations.back();
    fmt::print("{:>4} {:>8} {:>7} {:>9}  {}\n", rank, last.step, last.phase, last.channel,
               last_words(found->second));
  }
  for (const auto& [rank, dump] : flight.dumps)
    if (!dump.error.empty()) fmt::print("rank {} said: {}\n", rank, dump.error);
  for (const std::string& note : flight.notes) fmt::print("{}\n", note);
  fmt::print("{}\n", first_divergence(flight));
}

}  // namespace

void add_flight(CLI::App& app, int& /*exit_code*/) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "flight", "What the ranks of a failed run did last; docs/reliability.md");
  command->add_option("DIR", options->folder, "The run's folder, which has their dumps")
      ->required()
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print one JSON object");
  add_examples(*command, "flight runs/first", "flight runs/first --json");
  command->callback([options] {
    const Flight flight = read_flight(options->folder);
    if (options->json) return fmt::print("{}\n", to_json(flight).dump(2));
    print_table(flight);
  });
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "topknot/catalog.h"

namespace topknot::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<Params::Declaration>& parameters) {
  Json all = Json::array();
  for (const Params::Declaration& one : parameters)
    all.push_back({{"name", one.name},
                   {"default", one.fallback},
                   {"range", one.range},
                   {"meaning", one.meaning}});
  return all;
}

template <typename Lines, typename ParametersOf>
Json to_json(Lines lines, ParametersOf parameters_of) {
  Json all = Json::array();
  for (const auto& line : lines)
    all.push_back({{"name", line.name},
                   {"summary", line.summary},
                   {"paper", line.paper},
                   {"parameters", to_json(parameters_of(line.name))}});
  return all;
}

Json transports() {
  Json all = {"inproc"};
#ifdef TOPKNOT_HAVE_MPI
  all.push_back("mpi");
#endif
  return all;
}

Json catalog() {
  Json schemes_json = Json::array();
  for (const Scheme& scheme : schemes()) {
    const Spec memory = Spec::parse(scheme.memory);
    const Spec compressor = Spec::parse(scheme.compressor);
    const Spec collective = Spec::parse(scheme.collective);
    schemes_json.push_back(
        {{"name", scheme.name},
         {"summary", scheme.summary},
         {"paper", scheme.paper},
         {"memory", scheme.memory},
         {"compressor", scheme.compressor},
         {"collective", scheme.collective},
         {"schedule", scheme.schedule},
         {"parameters",
          {{"memory", to_json(memory_parameters(memory.name))},
           {"compressor", to_json(compressor_parameters(compressor.name))},
           {"collective", to_json(collective_parameters(collective.name))}}}});
  }
  return {{"version", TOPKNOT_VERSION},
          {"transports", transports()},
          {"schemes", schemes_json},
          {"collectives", to_json(collectives(), collective_parameters)},
          {"compressors", to_json(compressors(), compressor_parameters)},
          {"memories", to_json(memories(), memory_parameters)}};
}

void print_lines(const char* title, const Json& lines) {
  fmt::print("{}\n", title);
  for (const Json& line : lines) {
    fmt::print("  {:<18}{}\n", line["name"].get<std::string>(),
               line["summary"].get<std::string>());
    if (!line["paper"].get<std::string>().empty())
      fmt::print("  {:<18}[{}]\n", "", line["paper"].get<std::string>());
    for (const Json& one : line["parameters"])
      fmt::print("  {:<18}  {}={}  ({}) {}\n", "", one["name"].get<std::string>(),
                 one["default"].get<std::string>(), one["range"].get<std::string>(),
                 one["meaning"].get<std::string>());
  }
  fmt::print("\n");
}

void print_schemes(const Json& lines) {
  fmt::print(
      "Schemes: what to name in a job; a memory, a compressor and a collective, and how\n"
      "the density changes over time unless the job says it\n");
  for (const Json& line : lines) {
    const auto schedule = line["schedule"].get<std::string>();
    fmt::print("  {:<18}{}\n  {:<18}  {} + {} + {}{}\n", line["name"].get<std::string>(),
               line["summary"].get<std::string>(), "", line["memory"].get<std::string>(),
               line["compressor"].get<std::string>(),
               line["collective"].get<std::string>(),
               schedule == "constant" ? "" : ", " + schedule);
  }
  fmt::print("\n");
}

void print_catalog(const Json& all) {
  print_schemes(all["schemes"]);
  print_lines("Collectives: how ranks agree on the sum", all["collectives"]);
  print_lines("Compressors: which coordinates are worth sending", all["compressors"]);
  print_lines("Memories: what a rank keeps of the coordinates that were not sent",
              all["memories"]);
  fmt::print("Transports: ");
  for (const Json& one : all["transports"]) fmt::print("{} ", one.get<std::string>());
  fmt::print("\nParameters are given as name:key=value,key=value\n");
}

}  // namespace

void add_list(CLI::App& app, int&) {
  auto json = std::make_shared<bool>(false);
  CLI::App* list =
      app.add_subcommand("list", "All algorithms by name, with their parameters");
  list->add_flag("--json", *json, "Print one JSON object");
  list->callback([json] {
    const Json all = catalog();
    if (*json) {
      fmt::print("{}\n", all.dump(2));
    } else {
      print_catalog(all);
    }
  });
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
//
// list: everything that has a name. Without a word the schemes, in a screen of 80 columns; a kind
// lists what there is of it; a name tells all about one.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/colour.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/job_file.h"
#include "cli/wrapped.h"
#include "core/names.h"
#include "data/dataset.h"
#include "job/models.h"
#include "job/optimizer.h"
#include "job/rates.h"
#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

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

Json schemes_json() {
  Json all = Json::array();
  for (const Scheme& scheme : schemes()) {
    const SchemeParts parts = parse_scheme(scheme.name);
    all.push_back(
        {{"name", scheme.name},
         {"summary", scheme.summary},
         {"paper", scheme.paper},
         {"exchange", scheme.exchange},
         {"memory", scheme.memory},
         {"compressor", scheme.compressor},
         {"collective", scheme.collective},
         {"schedule", scheme.schedule},
         {"parameters",
          {{"memory", to_json(memory_parameters(parts.memory.name))},
           {"compressor", to_json(compressor_parameters(parts.compressor.name))},
           {"collective", to_json(collective_parameters(parts.collective.name))}}}});
  }
  return all;
}

Json collectives_json() {
  Json all = to_json(collectives(), collective_parameters);
  for (Json& one : all) {
    const Cost& cost = cost_of(one["name"].get<std::string>());
    one["messages"] = cost.messages;
    one["words"] = cost.words;
  }
  return all;
}

Json models_json() {
  Json all = Json::array();
  for (const train::ModelEntry& model : train::models())
    all.push_back(
        {{"name", model.name}, {"summary", model.summary}, {"task", model.task}});
  return all;
}

Json optimizers_json() {
  Json all = Json::array();
  for (const std::string& name : train::optimizer_names())
    all.push_back({{"name", name},
                   {"summary", train::optimizer_summary(name)},
                   {"parameters", to_json(train::optimizer_parameters(name))}});
  return all;
}

Json schedules_json() {
  Json all = Json::array();
  for (const std::string& name : train::Rates::names())
    all.push_back(
        {{"name", name},
         {"summary", train::Rates::summary(name)},
         {"of", "lr_schedule"},
         {"parameters", to_json(train::Rates({name, {}}, 1, 0, 0, 1).parameters())}});
  for (const ScheduleEntry& entry : schedules())
    all.push_back({{"name", entry.name},
                   {"summary", entry.summary},
                   {"of", "density_schedule"},
                   {"parameters", to_json(schedule_parameters(entry.name))}});
  return all;
}

Json jobs_json() {
  Json all = Json::array();
  for (const NamedJob& job : list_jobs(jobs_folder()))
    all.push_back({{"name", job.name}, {"summary", job.summary}});
  return all;
}

Json data_json() {
  Json all = Json::array();
  for (const data::Dataset& set : data::datasets())
    all.push_back({{"name", set.name},
                   {"summary", set.summary},
                   {"licence", set.licence},
                   {"megabytes", set.megabytes},
                   {"how to get it", data::how_to_get(set)}});
  return all;
}

Json keys_json() {
  const train::Job defaults;
  Json all = Json::array();
  for (const train::Key& key : train::keys())
    all.push_back({{"name", key.name},
                   {"summary", key.meaning},
                   {"range", key.range},
                   {"default", train::get(defaults, key.name)}});
  return all;
}

struct Kind {
  const char* name;
  const char* one;  // of them
  const char* title;
  Json (*entries)();
};

constexpr Kind kKinds[] = {
    {"schemes", "scheme",
     "what to name in a job: a memory, a compressor and a collective", schemes_json},
    {"collectives", "collective", "how ranks agree on the sum", collectives_json},
    {"compressors", "compressor", "which coordinates are worth sending",
     [] { return to_json(compressors(), compressor_parameters); }},
    {"memories", "memory", "what a rank keeps of what was not sent",
     [] { return to_json(memories(), memory_parameters); }},
    {"models", "model", "what can be trained", models_json},
    {"optimizers", "optimizer", "what moves the weights", optimizers_json},
    {"schedules", "schedule", "of the learning rate, and of the density", schedules_json},
    {"jobs", "job", "what `topknot train` knows by name", jobs_json},
    {"data", "data set", "what jobs are trained on", data_json},
    {"keys", "key", "of a job, for its file and for --set", keys_json},
};

constexpr std::size_t kColumns = 80;

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_short(const Kind& kind) {
  const Json entries = kind.entries();
  std::size_t width = 0;
  for (const Json& entry : entries)
    width = std::max(width, entry["name"].get_ref<const std::string&>().size());
  fmt::print("{}: {}\n", coloured(Colour::bold, kind.name, stdout), kind.title);
  for (const Json& entry : entries)
    fmt::print("  {:<{}}  {}\n", text_of(entry["name"]), width,
               wrapped(text_of(entry["summary"]), kColumns, width + 4));
}

void print_parameters(const Json& parameters, const std::string& of) {
  for (const Json& one : parameters) {
    const std::string line = fmt::format(
        "{}={} ({}{}) {}", text_of(one["name"]), text_of(one["default"]),
        of.empty() ? "" : of + "'s, ", text_of(one["range"]), text_of(one["meaning"]));
    fmt::print("  {}\n", wrapped(line, kColumns, 6));
  }
}

void print_whole(const Kind& kind, const Json& entry) {
  const std::string name = text_of(entry["name"]);
  const std::string said =
      wrapped(fmt::format("{}, a {}: {}", name, kind.one, text_of(entry["summary"])),
              kColumns, 2);
  fmt::print("{}{}\n", coloured(Colour::bold, name, stdout), said.substr(name.size()));
  for (const auto& [what, value] : entry.items())
    if (what != "name" && what != "summary" && what != "parameters" &&
        !text_of(value).empty())
      fmt::print("  {:<14}{}\n", what, wrapped(text_of(value), kColumns, 16));
  if (!entry.contains("parameters")) return;
  const Json& parameters = entry["parameters"];
  if (parameters.is_array()) return print_parameters(parameters, "");
  for (const auto& [part, declared] : parameters.items())
    print_parameters(declared, part);
}

void print_default() {
  print_short(kKinds[0]);
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  fmt::print(
      "\n`train --scheme auto` takes knot or dense, whichever is measured to be faster.");
  fmt::print("\n`list NAME` tells about one. `list KIND` lists {},\n{}.\n",
             core::listed({names.begin(), names.begin() + 2}, ", "),
             core::listed({names.begin() + 2, names.end()}, " or "));
}

Json everything() {
  Json all = {{"version", TOPKNOT_VERSION}, {"transports", transports()}};
  for (const Kind& kind : kKinds) all[kind.name] = kind.entries();
  return all;
}

/// Prints what has this name; false when nothing has.
bool print_named(const std::string& name, bool json) {
  Json found = Json::object();
  for (const Kind& kind : kKinds)
    for (const Json& entry : kind.entries())
      if (core::same_name(text_of(entry["name"]), name)) {
        if (!json) print_whole(kind, entry);
        found[kind.name] = entry;
      }
  if (json && !found.empty()) fmt::print("{}\n", found.dump(2));
  return !found.empty();
}

void run(const std::string& word, bool json) {
  if (word.empty()) {
    if (!json) return print_default();
    return fmt::print("{}\n", everything().dump(2));
  }
  for (const Kind& kind : kKinds)
    if (kind.name == word) {
      if (!json) return print_short(kind);
      return fmt::print("{}\n", Json({{kind.name, kind.entries()}}).dump(2));
    }
  if (print_named(word, json)) return;
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  std::vector<std::string> all = names;
  for (const Kind& kind : kKinds)
    for (const Json& entry : kind.entries())
      if (std::ranges::count(all, text_of(entry["name"])) == 0)
        all.push_back(text_of(entry["name"]));
  const bool near = !core::nearest(word, all).empty();
  throw ConfigError("There is nothing named " + word +
                    core::suggestion(word, near ? all : names) + ".");
}

}  // namespace

void list_kind(const std::string& kind) { run(kind, /*json=*/false); }

void add_list(CLI::App& app, int&) {
  auto json = std::make_shared<bool>(false);
  auto word = std::make_shared<std::string>();
  CLI::App* list = app.add_subcommand(
      "list", "What has a name: schemes, their parts, models, jobs, data sets, keys");
  list->add_option("NAME", *word, "One of them, or a kind; without, the schemes")
      ->type_name(
          "schemes|collectives|compressors|memories|models|optimizers|schedules|"
          "jobs|data|keys");
  list->add_flag("--json", *json, "Print one JSON object");
  add_examples(*list, "list oktopk", "list jobs");
  list->callback([json, word] { run(*word, *json); });
}

}  // namespace topknot::cli

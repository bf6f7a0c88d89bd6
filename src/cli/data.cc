// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/help.h"
#include "cli/prepare_dataset.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DataOptions {
  std::string name;
  std::string folder;  // empty: wherever it is; else ./data
  std::string from;
  bool unchecked = false;
  bool json = false;
};

void list_sets(bool as_json) {
  Json all = Json::array();
  for (const data::Dataset& set : data::datasets()) {
    all.push_back({{"name", set.name},
                   {"summary", set.summary},
                   {"licence", set.licence},
                   {"megabytes", set.megabytes},
                   {"fetched", !set.archives.empty()},
                   {"folder", set.folder}});
    if (as_json) continue;
    fmt::print("{:<15}{}\n{:<15}{} MB{}; licence: {}\n", set.name, set.summary, "",
               set.megabytes, set.archives.empty() ? ", to be got by hand" : "",
               set.licence);
  }
  if (as_json)
    fmt::print("{}\n", Json({{"sets", all}}).dump());
  else
    fmt::print(
        "\n`topknot data NAME` fetches one, `--from FILE` takes what is here.\n"
        "Every domain also has a generated set that needs no download.\n");
}

void say_prepared(const data::Dataset& set, const Prepared& done, bool as_json) {
  if (as_json) {
    Json held = Json::object();
    for (const auto& [what, count] : done.summary) held[what] = count;
    fmt::print("{}\n", Json({{"set", set.name},
                             {"folder", done.folder.string()},
                             {"was_there", done.was_there},
                             {"licence", set.licence},
                             {"contents", held}})
                           .dump());
    return;
  }
  fmt::print("{} is {}in {}:", set.name, done.was_there ? "already " : "",
             done.folder.string());
  const char* before = " ";
  for (const auto& [what, count] : done.summary) {
    fmt::print("{}{} {}", before, count, what);
    before = ", ";
  }
  fmt::print(".\nLicence: {}.\n", set.licence);
}

/// The folder that has the set, of those that jobs look into; else the first that may get it.
std::filesystem::path destination(const data::Dataset& set, const std::string& given) {
  const auto folders = data_folders(set, given);
  for (const std::filesystem::path& folder : folders)
    if (data::has_set(set, folder)) return folder;
  return folders.front();
}

void run_data(const DataOptions& options) {
  if (options.name.empty()) {
    if (!options.from.empty())
      throw ConfigError("--from needs the name of the set that the file is of.");
    return list_sets(options.json);
  }
  const data::Dataset& set = data::find_dataset(options.name);
  if (options.unchecked && options.from.empty())
    throw ConfigError("--unchecked is for a file that was given with --from.");
  PrepareOptions how{
      .into = destination(set, options.folder),
      .from = std::nullopt,
      .unchecked = options.unchecked,
      .say = [](const std::string& what) { fmt::print(stderr, "{}\n", what); }};
  if (!options.from.empty()) how.from = options.from;
  try {
    say_prepared(set, prepare_dataset(set, how), options.json);
  } catch (const std::filesystem::filesystem_error& error) {
    throw StorageError(error.path1().string() + ": " + error.code().message() + ".");
  }
}

}  // namespace

void add_data(CLI::App& app, int& /*exit_code*/) {
  auto options = std::make_shared<DataOptions>();
  CLI::App* const data = app.add_subcommand(
      "data", "Fetch, check and prepare a data set; without a name, list them.");
  data->add_option("NAME", options->name, "Which set; without, list them")
      ->type_name("DATASET");
  data->add_option(
          "DIR,--data", options->folder,
          "Where to put its folder, or where it is; $TOPKNOT_DATA or ./data unless "
          "given")
      ->type_name("DIR");
  data->add_option("--from", options->from,
                   "Take this archive (or folder of files) and fetch nothing")
      ->type_name("FILE");
  data->add_flag("--unchecked", options->unchecked,
                 "Take --from's file although its hash is not the published one");
  data->add_flag("--json", options->json, "For other programs");
  add_examples(*data, "data", "data cifar10 --from cifar-10-binary.tar.gz");
  data->callback([options] { run_data(*options); });
}

}  // namespace topknot::cli

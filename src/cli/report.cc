// SPDX-License-Identifier: Apache-2.0
//
// report: runs as one page of HTML, and its plots as pictures.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/report/run_data.h"
#include "cli/report/write.h"
#include "topknot/simulated.h"

namespace topknot::cli {
namespace {

struct Options {
  std::vector<std::string> runs;
  ReportOptions report;
};

std::string network_names() {
  std::string names;
  for (const NetworkPreset& preset : network_presets())
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

}  // namespace

void add_report(CLI::App& app, int&) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "report", "Show runs as one page of HTML; docs/report.md has the details");
  command->add_option("RUN", options->runs, "Folders that `train --out` has made")
      ->required();
  command->add_option("-o,--output", options->report.page, "The page to write")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("--title", options->report.title, "What the page is called");
  command->add_option("--target", options->report.target,
                      "A value of the metric: adds the time and the bytes to reach it");
  command
      ->add_option("--network", options->report.network,
                   "Also show time as it would be on this network: " + network_names())
      ->type_name("NAME");
  command
      ->add_option("--png", options->report.pictures,
                   "Also write each plot as a picture into this folder, by Chromium")
      ->type_name("DIR");
  command
      ->add_option("--plot", options->report.plots,
                   "With --png, only the plots of these names, as loss-bytes")
      ->type_name("NAME");
  command->add_flag("--dark", options->report.dark, "Pictures on a dark ground");
  add_examples(*command, "report runs/first runs/second -o report.html",
               "report runs/* --target 0.9 --png plots");
  command->callback([options] {
    std::vector<RunData> runs;
    const std::string& name = options->report.network;
    const Network* const network = name.empty() ? nullptr : &find_network(name).network;
    for (const std::string& folder : options->runs)
      runs.push_back(read_run(folder, network));
    write_report(runs, options->report);
  });
}

}  // namespace topknot::cli

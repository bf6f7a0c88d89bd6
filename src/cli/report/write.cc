// SPDX-License-Identifier: Apache-2.0
#include "cli/report/write.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "cli/report/page.h"
#include "cli/report/picture.h"
#include "core/names.h"
#include "topknot/error.h"
#include "topknot/simulated.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

void write_in_one_instant(const fs::path& file, const std::string& text) {
  const fs::path part = file.string() + ".part";
  std::ofstream stream(part, std::ios::binary);
  stream << text;
  stream.close();
  std::error_code error;
  if (stream) fs::rename(part, file, error);
  if (!stream || error)
    throw StorageError(fmt::format(
        "The page {} cannot be written: name a file in a folder that is there.",
        file.string()));
}

std::string default_title(const std::vector<RunData>& runs) {
  const std::string name = runs.front().run["job"].value("name", "");
  for (const RunData& other : runs)
    if (other.run["job"].value("name", "") != name) return "Training runs";
  return name.empty() ? "Training runs" : name;
}

}  // namespace

void write_report(const std::vector<RunData>& runs, const ReportOptions& options) {
  const bool pictures = !options.pictures.empty();
  const fs::path chromium = pictures ? find_chromium() : fs::path();
  if (pictures && !has_plotting_library()) throw ConfigError(missing_plotting_library());
  const Json data = page_data(
      runs, {.title = options.title.empty() ? default_title(runs) : options.title,
             .target = options.target,
             .network = options.network.empty()
                            ? ""
                            : std::string(find_network(options.network).summary)});
  write_in_one_instant(options.page, make_page(data));
  fmt::print(options.to, "{}\n", options.page.string());
  if (!has_plotting_library())
    fmt::print(stderr, "topknot: {}\n", missing_plotting_library());
  if (!pictures) return;
  const std::vector<std::string> all = plots_in(chromium, options.page);
  for (const std::string& name : options.plots)
    if (std::ranges::find(all, name) == all.end())
      throw ConfigError(
          fmt::format("The page has no plot {}{}.", name, core::suggestion(name, all)));
  std::error_code error;  // the first picture says so where there is no folder
  fs::create_directories(options.pictures, error);
  for (const std::string& name : options.plots.empty() ? all : options.plots) {
    const fs::path png = options.pictures / (name + ".png");
    take_picture(chromium, options.page,
                 (options.dark ? "dark&only=" : "light&only=") + name, {}, png);
    fmt::print(options.to, "{}\n", png.string());
  }
}

}  // namespace topknot::cli

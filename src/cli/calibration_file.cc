// SPDX-License-Identifier: Apache-2.0
#include "cli/calibration_file.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "topknot/error.h"

namespace topknot::cli {

using Json = nlohmann::ordered_json;

void write_calibration(const std::string& path, const sim::Calibration& calibration) {
  Json rates = Json::object();
  for (const auto& [scheme, of_scheme] : calibration.by_scheme)
    rates[scheme] = {{"per_coordinate", of_scheme.per_coordinate},
                     {"per_byte", of_scheme.per_byte}};
  const LinkSpeed& link = calibration.link;
  const Json json = {{"link",
                      {{"bandwidth", link.bandwidth},
                       {"latency", link.latency},
                       {"overhead", link.overhead}}},
                     {"cores", calibration.cores.count},
                     {"rates", rates}};
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  if (!file.flush())
    throw StorageError(fmt::format("The file {} cannot be written.", path));
}

sim::Calibration read_calibration(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw DataError(fmt::format("The file {} cannot be read.", path));
  try {
    const Json json = Json::parse(file);
    sim::Calibration made;
    const Json& link = json.at("link");
    made.link = {.bandwidth = link.at("bandwidth").get<double>(),
                 .latency = link.at("latency").get<double>(),
                 .overhead = link.at("overhead").get<double>()};
    made.cores.count = json.value("cores", 0);
    for (const auto& [scheme, rates] : json.at("rates").items())
      made.by_scheme[scheme] = {rates.at("per_coordinate").get<double>(),
                                rates.at("per_byte").get<double>()};
    return made;
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format(
        "The file {} is no calibration; `topknot advise --measure --save {}` makes one.",
        path, path));
  }
}

}  // namespace topknot::cli

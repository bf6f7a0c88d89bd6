// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

using nlohmann::json;

std::ifstream open(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file)
    throw DataError(fmt::format(
        "{} cannot be read; --run takes a folder that `topknot train --out` has written.",
        path.string()));
  return file;
}

double median_compute(const std::filesystem::path& path) {
  std::ifstream file = open(path);
  std::vector<double> seconds;
  for (std::string line; std::getline(file, line);)
    seconds.push_back(json::parse(line).at("compute_seconds").get<double>());
  return median(seconds);
}

/// When each bucket of rank 0 set out, in seconds from the begin of its step.
std::map<std::size_t, double> ready_times(const std::filesystem::path& path) {
  std::ifstream file = open(path);
  std::map<std::uint64_t, double> begin;  // of each step's first forward pass
  std::map<std::size_t, std::vector<double>> offsets;
  const json trace = json::parse(file);
  const auto for_spans = [&](std::string_view prefix, const auto& act) {
    for (const json& event : trace.at("traceEvents")) {
      const std::string name = event.at("name");
      if (event.at("ph") != "X" || event.at("pid") != 0 || !name.starts_with(prefix))
        continue;
      act(name, event.at("args").at("step").get<std::uint64_t>(),
          1e-6 * event.at("ts").get<double>());
    }
  };
  for_spans("forward", [&](const std::string&, std::uint64_t step, double start) {
    const auto [first, is_new] = begin.emplace(step, start);
    if (!is_new) first->second = std::min(first->second, start);
  });
  for_spans("bucket ", [&](const std::string& name, std::uint64_t step, double start) {
    if (const auto found = begin.find(step); found != begin.end())
      offsets[std::stoul(name.substr(7))].push_back(start - found->second);
  });
  std::map<std::size_t, double> ready;
  for (const auto& [bucket, of_steps] : offsets) ready[bucket] = median(of_steps);
  return ready;
}

}  // namespace

sim::Workload recorded_workload(const std::filesystem::path& folder) {
  try {
    std::ifstream file = open(folder / "run.json");
    const json run = json::parse(file);
    sim::Workload workload;
    workload.params = run.at("parameters").get<double>();
    workload.compute = median_compute(folder / "steps.jsonl");
    std::map<std::size_t, double> ready;
    if (std::filesystem::exists(folder / "trace.json"))
      ready = ready_times(folder / "trace.json");
    const json& buckets = run.at("buckets");
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const double share =
          static_cast<double>(i + 1) / static_cast<double>(buckets.size());
      const auto found = ready.find(i);
      workload.buckets.push_back({buckets[i].at("coordinates").get<double>(),
                                  found != ready.end()
                                      ? found->second
                                      : sim::ready_at(workload.compute, share)});
    }
    return workload;
  } catch (const json::exception& error) {
    throw DataError(fmt::format("The folder {} has no run that can be read: {}.",
                                folder.string(), error.what()));
  }
}

}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <thread>

namespace topknot::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string processor() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

}  // namespace

Json describe_machine() {
  Json machine = Json::object();
  utsname system = {};
  if (uname(&system) == 0) {
    machine["host"] = system.nodename;
    machine["system"] = std::string(system.sysname) + " " + system.release;
    machine["architecture"] = system.machine;
  }
  if (const std::string name = processor(); !name.empty()) machine["processor"] = name;
  machine["cores"] = std::thread::hardware_concurrency();
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0)
    machine["memory_bytes"] =
        static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  return machine;
}

Json describe_versions(const std::string& torch) {
  Json all = {
      {"topknot", TOPKNOT_VERSION}, {"commit", built_from()}, {"compiler", __VERSION__}};
  if (!torch.empty()) all["torch"] = torch;
  return all;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::uint64_t free_memory_bytes() {
  std::ifstream stream("/proc/meminfo");
  for (std::string name; stream >> name;) {
    std::uint64_t kilobytes = 0;
    stream >> kilobytes;
    if (name == "MemAvailable:") return kilobytes * 1024;
    stream.ignore(64, '\n');
  }
  return 0;
}

std::uint64_t peak_memory_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace topknot::cli

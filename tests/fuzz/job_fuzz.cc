// SPDX-License-Identifier: Apache-2.0
//
// Any text as a job's TOML file. It is refused by a sentence that begins with the file, or every
// key it gives reads back as itself; then the job is checked, which is another sentence or none.
#include <string>
#include <string_view>

#include "cli/job_file.h"
#include "fuzz/files.h"
#include "job/job.h"

namespace {

using namespace topknot;
using topknot::fuzz::require;

void check_keys(const train::Job& job) {
  train::Job again = job;
  for (const train::Key& key : train::keys()) {
    const std::string value = train::get(job, key.name);
    train::set(again, key.name, value);
    require(train::get(again, key.name) == value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::Files files;
  const auto file = files.write("job.toml", {data, size});
  train::Job job;
  try {
    cli::read_job(file, job);
  } catch (const ConfigError& error) {
    require(std::string_view(error.what()).starts_with(file.string()));
    return 0;
  }
  check_keys(job);
  try {
    train::check(job);
  } catch (const ConfigError& error) {
    require(std::string_view(error.what()).size() > 10);
  }
  return 0;
}

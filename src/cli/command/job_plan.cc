// SPDX-License-Identifier: Apache-2.0
#include "cli/command/job_plan.h"

#include <fmt/core.h>

#include <thread>

#include "cli/errors.h"
#include "cli/job_file.h"
#include "cli/launcher.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/resume.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

train::Job base_job(const TrainOptions& options) {
  if (options.resume && options.job.empty()) return job_of_run(options.out);
  train::Job job;
  job.threads = 0;  // unless somebody sets it
  const std::string name = options.job.empty() ? "quickstart" : options.job;
  read_job(find_job(name, jobs_folder()), job);
  return job;
}

}  // namespace

JobPlan make_plan(const TrainOptions& options) {
  if (options.resume) require_run(options.out);
  JobPlan plan{
      .job = base_job(options), .workers = options.settings.workers(), .notices = {}};
  read_environment(plan.job);
  options.settings.apply_to(plan.job);
  if (plan.job.threads == 0) plan.job.threads = granted_threads().count;
  if (options.resume) plan.notices = changes_since(options.out, plan.job);
  return plan;
}

void check_room(int workers, std::uint64_t bytes) {
  const std::uint64_t free = free_memory_bytes();
  const std::uint64_t needed = bytes * static_cast<std::uint64_t>(workers);
  if (free > 0 && needed > free)
    throw ConfigError(fmt::format(
        "{} workers of at least {} each need {}, and {} are free here: take at most {}, "
        "or "
        "more machines.",
        with_commas(static_cast<std::uint64_t>(workers)),
        bytes_text(static_cast<double>(bytes)), bytes_text(static_cast<double>(needed)),
        bytes_text(static_cast<double>(free)),
        with_commas(free / std::max<std::uint64_t>(bytes, 1))));
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  warn(fmt::format(
      "{} workers share {} cores, so a step takes {} times as long as it would "
      "on a core each.",
      with_commas(static_cast<std::uint64_t>(workers)), cores,
      with_commas(static_cast<std::uint64_t>(workers) / cores)));
}

}  // namespace topknot::cli

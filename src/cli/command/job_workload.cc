// SPDX-License-Identifier: Apache-2.0
#include "cli/command/job_workload.h"

#include "cli/command/dry_run.h"
#include "cli/command/job_plan.h"
#include "cli/command/train.h"
#include "cli/data_folders.h"
#include "topknot/transports.h"
#include "train/compute_time.h"

namespace topknot::cli {

#ifdef TOPKNOT_HAVE_TORCH

sim::Workload workload_of_job(const std::string& name, bool timed) {
  TrainOptions options;
  options.job = name;
  const train::Job job = make_plan(options).job;
  require_data(job);
  const train::Start start = plan_alone(job);
  sim::Workload workload;
  workload.params = static_cast<double>(start.parameters);
  const auto links = make_inproc(static_cast<int>(job.workers));
  if (timed) workload.compute = train::compute_time(*links[0], with_data_found(job));
  double done = 0;
  for (const Layout& bucket : start.buckets) {
    const auto coordinates = static_cast<double>(bucket.size());
    done += coordinates;
    workload.buckets.push_back(
        {coordinates, sim::ready_at(workload.compute, done / workload.params)});
  }
  return workload;
}

#else

sim::Workload workload_of_job(const std::string&, bool) {
  require_trainer();
  return {};
}

#endif

}  // namespace topknot::cli

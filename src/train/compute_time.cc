// SPDX-License-Identifier: Apache-2.0
#include "train/compute_time.h"

#include "job/auto_scheme.h"
#include "job/engine_options.h"
#include "train/channels.h"
#include "train/passes.h"

namespace topknot::train {

double compute_time(Transport& link, const Job& job) {
  check(job);
  at::set_num_threads(static_cast<int>(job.threads));
  std::vector<std::string> unsaid;
  const Job as_run = prepared(is_auto(job) ? sparse_side(job) : job, unsaid);
  const auto task = make_task(as_run, {link.rank(), link.size()});
  Replica replica(task->model(), link, engine_options(as_run, kTrialChannel));
  return time_passes(as_run, *task, replica);
}

}  // namespace topknot::train

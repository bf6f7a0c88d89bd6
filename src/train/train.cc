// SPDX-License-Identifier: Apache-2.0
#include "train/train.h"

#include <torch/version.h>

#include "job/auto_scheme.h"
#include "train/channels.h"
#include "train/loop.h"
#include "train/replica_fields.h"

namespace topknot::train {

Outcome train(Transport& link, const Job& job, const TrainOptions& options,
              Observer& observer) {
  Comparison comparison(link, kComparisonChannel);
  Fields fields = fields_of(job);
  for (Field& field : build_fields()) fields.push_back(std::move(field));
  for (Field& field : fields_of(options)) fields.push_back(std::move(field));
  comparison.require_equal(fields);
  check(job);
  at::set_num_threads(static_cast<int>(job.threads));
  return Loop(link, job, options, observer, comparison).run();
}

std::string torch_version() { return TORCH_VERSION; }

Start plan(Transport& link, const Job& job, Observer& observer) {
  check(job);
  at::set_num_threads(static_cast<int>(job.threads));
  Comparison comparison(link, kComparisonChannel);
  const TrainOptions options;
  const Job known = is_auto(job) ? sparse_side(job) : job;
  Start start = Loop(link, known, options, observer, comparison).plan();
  if (is_auto(job))
    start.notices.emplace_back(
        "auto decides when training starts, by exchanges that are measured then; this is "
        "the plan if it takes " +
        known.scheme + " for all.");
  return start;
}

}  // namespace topknot::train

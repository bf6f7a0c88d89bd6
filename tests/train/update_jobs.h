// SPDX-License-Identifier: Apache-2.0
//
// A job that exchanges updates and takes a second, for tests on every step and in rounds.
#pragma once

#include <string>
#include <vector>

#include "train/runs.h"

namespace topknot::train::testing {

/// 20 steps an epoch on two ranks, 40 on one. Nothing of the exchange is set.
inline Job small_update_job(const std::string& optimizer = "sgd:momentum=0.9") {
  Job job;
  job.name = "updates";
  job.model = "mlp:hidden=32";
  job.data = "generated:classes=4,size=320,seed=3,side=8,noise=0";
  job.epochs = 2;
  job.batch = 8;
  job.lr = optimizer.starts_with("sgd") ? 0.02 : 0.002;
  job.optimizer = optimizer;
  job.bucket_mb = 0.01;
  return job;
}

inline const std::vector<std::string> kOptimizers = {
    "sgd", "sgd:momentum=0.9", "sgd:momentum=0.9,nesterov=1", "adam", "adamw"};

/// Of the same job with a dense exchange of gradients on every step.
inline double dense_accuracy(Job job) {
  job.scheme = "dense";
  job.exchange = "gradients";
  job.density = 0;
  return train_on(2, job).metric.value;
}

/// The accuracy of a job that takes `steps` on two ranks and goes on with `ranks`.
inline double accuracy_after_resize(const Job& job, std::int64_t steps, int ranks) {
  const Folder folder;
  Job first = job;
  first.steps = steps;
  train_on(2, first, {.checkpoints = folder.path()});
  return train_on(ranks, job, {.checkpoints = folder.path(), .resume = true})
      .metric.value;
}

}  // namespace topknot::train::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/choose.h"
#include "train/task.h"
#include "train/train.h"

namespace topknot::train {

/// Decides a job with scheme=auto: the side of it (job/auto_scheme.h) that is run. A resumed run
/// keeps what its checkpoint says. Otherwise one step's passes are timed, which leave nothing behind
/// in `task`, then the exchanges (sim/choose.h). All ranks call it and get the same.
class AutoDecision {
 public:
  AutoDecision(Transport& link, const TrainOptions& options, Observer& observer)
      : link_(link), options_(options), observer_(observer) {}

  /// A job with a scheme of its own is returned as it is. Says in `notices` what was decided.
  Job decide(const Job& job, Task& task, std::vector<std::string>& notices);
  /// What was measured; empty where nothing was.
  const std::vector<sim::ChosenBucket>& buckets() const { return choice_.buckets; }

 private:
  std::string decided_before();
  Job measure(const Job& job, Task& task, std::vector<std::string>& notices);

  Transport& link_;
  const TrainOptions& options_;
  Observer& observer_;
  sim::Choice choice_;
};

}  // namespace topknot::train

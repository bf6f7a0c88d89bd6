// SPDX-License-Identifier: Apache-2.0
#include "train/synchronizer.h"

#include "topknot/error.h"
#include "train/every_step.h"
#include "train/local_steps.h"

namespace topknot::train {

std::uint64_t Synchronizer::settle() {
  throw ContractError("only an exchange of updates can settle its residuals");
}

std::unique_ptr<Synchronizer> make_synchronizer(const Job& job, Task& task,
                                                Replica& replica, Transport& link) {
  if (job.local_steps > 1) return std::make_unique<LocalSteps>(job, replica, link);
  return std::make_unique<EveryStep>(job, task, replica, link.size());
}

void apply_gradients(const Job& job, Optimizer& optimizer, Replica& replica, double lr,
                     double scale, int ranks) {
  optimizer.begin_step();
  for (std::size_t i = 0; i < replica.size(); ++i) {
    if (replica.engine().units(i) == Units::updates) continue;
    optimizer.apply(i, replica.weight(i), replica.gradient(i),
                    {.lr = lr,
                     .decay = weight_decay_of(job, replica.tensor(i)),
                     .scale = static_cast<float>(scale),
                     .ranks = ranks});
  }
}

}  // namespace topknot::train

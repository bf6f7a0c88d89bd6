// SPDX-License-Identifier: Apache-2.0
#include "train/local_steps.h"

#include <algorithm>

namespace topknot::train {

LocalSteps::LocalSteps(const Job& job, Replica& replica, Optimizer& inner)
    : lr_(job.outer_lr),
      replica_(replica),
      inner_(inner),
      outer_(make_optimizer(Spec::parse(job.outer), replica.sizes())) {
  for (const std::size_t size : replica.sizes()) weights_.emplace_back(size);
}

void LocalSteps::begin() {
  for (std::size_t i = 0; i < replica_.size(); ++i)
    std::ranges::copy(replica_.weight(i), weights_[i].begin());
}

void LocalSteps::clear_gradients() {
  for (std::size_t i = 0; i < replica_.size(); ++i)
    std::ranges::fill(replica_.gradient(i), 0.0F);
}

StepReport LocalSteps::exchange() {
  replica_.engine().begin(lr_);
  hand_over();
  StepReport report = replica_.engine().finish();
  report.exposed_seconds = report.seconds;  // there is no backward pass to hide behind
  report.overlap = 0;
  report.finite ? move() : inner_.reset();
  return report;
}

// In the order of a backward pass: a bucket is under way while the next is made.
void LocalSteps::hand_over() {
  for (std::size_t i = replica_.size(); i-- > 0;) {
    const std::span<float> weight = replica_.weight(i);
    const std::span<float> gradient = replica_.gradient(i);
    for (std::size_t at = 0; at < weight.size(); ++at) {
      gradient[at] = weights_[i][at] - weight[at];
      weight[at] = weights_[i][at];
    }
    replica_.engine().ready(i);
  }
}

void LocalSteps::move() {
  outer_->begin_step();
  for (std::size_t i = 0; i < replica_.size(); ++i)
    outer_->apply(i, replica_.weight(i), replica_.gradient(i), {.lr = lr_});
}

}  // namespace topknot::train

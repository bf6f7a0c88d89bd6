// SPDX-License-Identifier: Apache-2.0
#include "train/updates.h"

#include <cmath>

#include "job/optimizer.h"

namespace topknot::train {

Updates::Updates(const Job& job, Replica& replica, int ranks)
    : job_(job),
      on_(job.exchange == "updates"),
      clip_(job.clip * std::sqrt(static_cast<double>(ranks))),
      decoupled_(Spec::parse(job.optimizer).name == "adamw"),
      replica_(replica) {}

// Parameters that are sent whole are exchanged as gradients: the optimizer adds their decay.
void Updates::prepare(std::size_t parameter) {
  const auto decay =
      static_cast<float>(weight_decay_of(job_, replica_.tensor(parameter)));
  if (decoupled_ || decay == 0 || replica_.engine().units(parameter) != Units::updates)
    return;
  const std::span<float> gradient = replica_.gradient(parameter);
  const std::span<const float> weight = replica_.weight(parameter);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += decay * weight[i];
}

void Updates::prepare_all() {
  const double squares = clip_ > 0 ? replica_.gradient_squares() : 0;
  // A gradient that is not finite is not scaled: the exchange detects it.
  const double factor = std::isfinite(squares) ? clip_factor(squares, clip_) : 1;
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    if (factor != 1)
      for (float& g : replica_.gradient(i)) g *= static_cast<float>(factor);
    prepare(i);
  }
}

void Updates::apply(std::size_t parameter, double lr) {
  const double decay = decoupled_ ? weight_decay_of(job_, replica_.tensor(parameter)) : 0;
  const auto taken = static_cast<float>(lr * decay);
  const std::span<const float> update = replica_.gradient(parameter);
  const std::span<float> weight = replica_.weight(parameter);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    weight[i] -= taken * weight[i];
    weight[i] -= update[i];
  }
}

}  // namespace topknot::train

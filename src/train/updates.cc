// SPDX-License-Identifier: Apache-2.0
#include "train/updates.h"

#include <cmath>

#include "train/optimizer.h"

namespace topknot::train {

Updates::Updates(const Job& job, Replica& replica, int ranks)
    : on_(job.exchange == "updates"),
      clip_(job.clip * std::sqrt(static_cast<double>(ranks))),
      decay_(job.weight_decay),
      decay_vectors_(job.decay_vectors),
      decoupled_(Spec::parse(job.optimizer).name == "adamw"),
      replica_(replica) {}

double Updates::decay_of(std::size_t parameter) const {
  return decay_vectors_ || replica_.tensor(parameter).shape.size() > 1 ? decay_ : 0;
}

// Of a parameter whose gradient is reduced the optimizer behind the exchange takes the decay.
void Updates::prepare(std::size_t parameter) {
  const auto decay = static_cast<float>(decay_of(parameter));
  if (decoupled_ || decay == 0 || replica_.engine().units(parameter) != Units::updates)
    return;
  const std::span<float> gradient = replica_.gradient(parameter);
  const std::span<const float> weight = replica_.weight(parameter);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += decay * weight[i];
}

void Updates::prepare_all() {
  double squares = 0;
  if (clip_ > 0)
    for (std::size_t i = 0; i < replica_.size(); ++i)
      for (const float g : replica_.gradient(i)) squares += static_cast<double>(g) * g;
  // A gradient that is not finite is left as it is: the exchange finds it.
  const double factor = std::isfinite(squares) ? clip_factor(squares, clip_) : 1;
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    if (factor != 1)
      for (float& g : replica_.gradient(i)) g *= static_cast<float>(factor);
    prepare(i);
  }
}

void Updates::apply(std::size_t parameter, double lr) {
  const auto taken = static_cast<float>(decoupled_ ? lr * decay_of(parameter) : 0);
  const std::span<const float> update = replica_.gradient(parameter);
  const std::span<float> weight = replica_.weight(parameter);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    weight[i] -= taken * weight[i];
    weight[i] -= update[i];
  }
}

}  // namespace topknot::train

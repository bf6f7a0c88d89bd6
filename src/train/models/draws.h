// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "core/random.h"

namespace topknot::train {

/// Fills a weight with draws uniform in [-bound, bound), from `seed` alone: the same bits on
/// every machine.
inline void draw_uniform(torch::Tensor weight, double bound, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  core::Random random(seed);
  float* const values = weight.data_ptr<float>();
  for (std::int64_t i = 0; i < weight.numel(); ++i)
    values[i] = static_cast<float>(bound) * (2 * random.uniform() - 1);
}

}  // namespace topknot::train

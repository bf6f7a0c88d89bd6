// SPDX-License-Identifier: Apache-2.0
#include "train/models/network.h"

#include <cmath>

#include "train/models/draws.h"

namespace topknot::train {

void initialise(torch::nn::Module& module, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  std::uint64_t stream = 0;
  for (const auto& item : module.named_parameters()) {
    torch::Tensor weight = item.value();
    const std::uint64_t own = core::random_bits(seed, stream++);
    if (weight.dim() < 2) {
      weight.fill_(item.key().ends_with("bias") ? 0 : 1);
      continue;
    }
    const auto fan_in = static_cast<double>(weight[0].numel());
    draw_uniform(weight, std::sqrt(6 / fan_in), own);
  }
}

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                               .stride(stride)
                               .padding(kernel / 2)
                               .bias(false));
}

}  // namespace topknot::train

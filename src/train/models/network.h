// SPDX-License-Identifier: Apache-2.0
//
// The interface of the models for images, and what models share: initial weights, convolutions.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "data/images.h"

namespace topknot::train {

/// Images in, one logit for each class out. Submodules are registered in the order of the
/// forward pass, by which the engine orders its buckets.
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

/// The data that a network is made for.
struct NetworkShape {
  data::ImageShape image;
  int classes = 10;
};

/// Draws all weights anew from `seed` alone: matrices and kernels uniform with the variance
/// 2 / fan-in (He et al., ICCV 2015), norms one, biases zero. The same bits everywhere.
void initialise(torch::nn::Module& module, std::uint64_t seed);

/// A convolution without bias that keeps the size at stride 1.
torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride = 1);

}  // namespace topknot::train

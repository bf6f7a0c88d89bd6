// SPDX-License-Identifier: Apache-2.0
//
// What the models share: an interface, initial weights, and the two residual blocks.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "data/images.h"
#include "topknot/params.h"

namespace topknot::train {

/// Images in, one logit for each class out. Submodules are registered in the order of the
/// forward pass, which is what the engine cuts its buckets by.
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

/// What a network is to be made for.
struct NetworkShape {
  data::ImageShape image;
  int classes = 10;
};

/// A network by name with parameters, as in "mlp:hidden=256". Throws ConfigError, with the
/// nearest name, when there is none such or the images do not fit it.
std::shared_ptr<Network> make_network(const Spec& spec, const NetworkShape& shape);

// The models, each in its own file.
std::shared_ptr<Network> make_mlp(Params& params, const NetworkShape& shape);
std::shared_ptr<Network> make_cnn(Params& params, const NetworkShape& shape);
std::shared_ptr<Network> make_vgg16(Params& params, const NetworkShape& shape);
std::shared_ptr<Network> make_resnet20(Params& params, const NetworkShape& shape);
std::shared_ptr<Network> make_resnet18(Params& params, const NetworkShape& shape);
std::shared_ptr<Network> make_resnet50(Params& params, const NetworkShape& shape);

/// Draws all weights anew from `seed` alone: matrices and kernels uniform with the variance
/// 2 / fan-in (He et al., ICCV 2015), norms one, biases zero. The same bits everywhere.
void initialise(torch::nn::Module& module, std::uint64_t seed);

/// A convolution without bias that keeps the size at stride 1.
torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride = 1);

}  // namespace topknot::train

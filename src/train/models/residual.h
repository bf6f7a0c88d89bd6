// SPDX-License-Identifier: Apache-2.0
//
// The common parts of resnet18 and resnet50: a stem that depends on the image size, four stages,
// and shortcuts that are 1 x 1 convolutions where the shape changes. (He et al., CVPR 2016.)
#pragma once

#include "train/models/network.h"

namespace topknot::train {

/// The shortcut of a block: a convolution where the block changes the shape, else the identity.
class Shortcut final : public torch::nn::Module {
 public:
  Shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
    if (in == out && stride == 1) return;
    conv_ = register_module("conv", convolution(in, out, 1, stride));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(out));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return conv_.is_empty() ? x : norm_(conv_(x));
  }

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
};

/// The stem shrinks large images to a quarter, and not those of CIFAR's size. `Block` has a
/// constructor (in, width, stride) and a constant kExpansion: its output has width * kExpansion
/// channels.
template <typename Block>
class ResNet final : public Network {
 public:
  ResNet(const NetworkShape& shape, std::initializer_list<int> depths)
      : large_(shape.image.height > 64) {
    conv_ = register_module("conv", large_ ? convolution(shape.image.channels, 64, 7, 2)
                                           : convolution(shape.image.channels, 64, 3));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(64));
    std::int64_t in = 64;
    std::int64_t width = 64;
    for (const int depth : depths) {
      for (int block = 0; block < depth; ++block) {
        const std::int64_t stride = block == 0 && width > 64 ? 2 : 1;
        blocks_->push_back(std::make_shared<Block>(in, width, stride));
        in = width * Block::kExpansion;
      }
      width *= 2;
    }
    register_module("blocks", blocks_);
    classifier_ = register_module("classifier", torch::nn::Linear(in, shape.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(norm_(conv_(x)));
    if (large_) x = torch::max_pool2d(x, 3, 2, 1);
    return classifier_(blocks_->forward(x).mean({2, 3}));
  }

 private:
  const bool large_;
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Sequential blocks_;
  torch::nn::Linear classifier_{nullptr};
};

}  // namespace topknot::train

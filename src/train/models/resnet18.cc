// SPDX-License-Identifier: Apache-2.0
//
// resnet18: eight blocks of two convolutions; 11,173,962 weights for ten classes of CIFAR's
// size, 11,689,512 for ImageNet.

#include "train/models/registry.h"
#include "train/models/residual.h"

namespace topknot::train {
namespace {

class Block final : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;

  Block(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", convolution(in, width, 3, stride))),
        norm1_(register_module("norm1", torch::nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", convolution(width, width, 3))),
        norm2_(register_module("norm2", torch::nn::BatchNorm2d(width))),
        shortcut_(
            register_module("shortcut", std::make_shared<Shortcut>(in, width, stride))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = norm2_(conv2_(torch::relu(norm1_(conv1_(x)))));
    return torch::relu(y + shortcut_->forward(x));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
  std::shared_ptr<Shortcut> shortcut_;
};

}  // namespace

std::shared_ptr<Network> model::resnet18(Params&, const NetworkShape& shape) {
  return std::make_shared<ResNet<Block>>(shape, std::initializer_list<int>{2, 2, 2, 2});
}

}  // namespace topknot::train

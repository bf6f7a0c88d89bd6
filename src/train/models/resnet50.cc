// SPDX-License-Identifier: Apache-2.0
//
// resnet50: sixteen blocks of three convolutions, the middle one four times narrower and
// the one with the stride; 25,557,032 weights for ImageNet, 23,705,252 for a hundred classes
// of CIFAR's size.

#include "train/models/registry.h"
#include "train/models/residual.h"

namespace topknot::train {
namespace {

class Bottleneck final : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", convolution(in, width, 1))),
        norm1_(register_module("norm1", torch::nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", convolution(width, width, 3, stride))),
        norm2_(register_module("norm2", torch::nn::BatchNorm2d(width))),
        conv3_(register_module("conv3", convolution(width, width * kExpansion, 1))),
        norm3_(register_module("norm3", torch::nn::BatchNorm2d(width * kExpansion))),
        shortcut_(register_module(
            "shortcut", std::make_shared<Shortcut>(in, width * kExpansion, stride))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(norm1_(conv1_(x)));
    y = torch::relu(norm2_(conv2_(y)));
    return torch::relu(norm3_(conv3_(y)) + shortcut_->forward(x));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
  torch::nn::Conv2d conv3_;
  torch::nn::BatchNorm2d norm3_;
  std::shared_ptr<Shortcut> shortcut_;
};

}  // namespace

std::shared_ptr<Network> model::resnet50(Params&, const NetworkShape& shape) {
  return std::make_shared<ResNet<Bottleneck>>(shape,
                                              std::initializer_list<int>{3, 4, 6, 3});
}

}  // namespace topknot::train

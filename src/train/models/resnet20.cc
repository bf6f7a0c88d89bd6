// SPDX-License-Identifier: Apache-2.0
//
// resnet20: three stages of three blocks, 16, 32 and 64 channels wide, for CIFAR: 269,722
// weights for ten classes. Where a stage begins the shortcut takes every other pixel and
// pads the new channels with zeros, so it has no weights. (He et al., CVPR 2016, option A.)

#include "train/models/registry.h"

namespace topknot::train {
namespace {

class Block final : public torch::nn::Module {
 public:
  Block(std::int64_t in, std::int64_t out, std::int64_t stride)
      : stride_(stride),
        widen_(out - in),
        conv1_(register_module("conv1", convolution(in, out, 3, stride))),
        norm1_(register_module("norm1", torch::nn::BatchNorm2d(out))),
        conv2_(register_module("conv2", convolution(out, out, 3))),
        norm2_(register_module("norm2", torch::nn::BatchNorm2d(out))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = norm2_(conv2_(torch::relu(norm1_(conv1_(x)))));
    return torch::relu(y + shortcut(x));
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (stride_ == 1 && widen_ == 0) return x;
    using torch::indexing::Slice;
    const auto every = Slice(torch::indexing::None, torch::indexing::None, stride_);
    const torch::Tensor thin = x.index({Slice(), Slice(), every, every});
    const std::int64_t before = widen_ / 2;
    return torch::constant_pad_nd(thin, {0, 0, 0, 0, before, widen_ - before});
  }

  const std::int64_t stride_;
  const std::int64_t widen_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
};

class ResNet20 final : public Network {
 public:
  explicit ResNet20(const NetworkShape& shape)
      : conv_(register_module("conv", convolution(shape.image.channels, 16, 3))),
        norm_(register_module("norm", torch::nn::BatchNorm2d(16))) {
    std::int64_t in = 16;
    for (const std::int64_t out : {16, 32, 64})
      for (int block = 0; block < 3; ++block) {
        const std::int64_t stride = out > in ? 2 : 1;
        blocks_->push_back(std::make_shared<Block>(in, out, stride));
        in = out;
      }
    register_module("blocks", blocks_);
    classifier_ = register_module("classifier", torch::nn::Linear(in, shape.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(norm_(conv_(x)));
    return classifier_(blocks_->forward(x).mean({2, 3}));
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
  torch::nn::Sequential blocks_;
  torch::nn::Linear classifier_{nullptr};
};

}  // namespace

std::shared_ptr<Network> model::resnet20(Params&, const NetworkShape& shape) {
  return std::make_shared<ResNet20>(shape);
}

}  // namespace topknot::train

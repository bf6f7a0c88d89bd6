// SPDX-License-Identifier: Apache-2.0
//
// vgg16: thirteen convolutions with batch norm and one dense layer, the usual variant for
// CIFAR: 14,728,266 weights for ten classes. (Simonyan and Zisserman, ICLR 2015; with the
// single classifier layer of the papers on sparse exchange.)

#include <string>

#include "topknot/error.h"
#include "train/models/registry.h"

namespace topknot::train {
namespace {

constexpr int kPool = 0;
constexpr int kPlan[] = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                         kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};

class Vgg16 final : public Network {
 public:
  explicit Vgg16(const NetworkShape& shape) {
    std::int64_t in = shape.image.channels;
    for (const int out : kPlan) {
      if (out == kPool) {
        features_->push_back(torch::nn::MaxPool2d(2));
        continue;
      }
      features_->push_back(
          torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)));
      features_->push_back(torch::nn::BatchNorm2d(out));
      features_->push_back(torch::nn::ReLU());
      in = out;
    }
    register_module("features", features_);
    classifier_ = register_module("classifier", torch::nn::Linear(in, shape.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    return classifier_(features_->forward(x).mean({2, 3}));
  }

 private:
  torch::nn::Sequential features_;
  torch::nn::Linear classifier_{nullptr};
};

}  // namespace

std::shared_ptr<Network> model::vgg16(Params&, const NetworkShape& shape) {
  if (shape.image.height < 32 || shape.image.width < 32)
    throw ConfigError(
        "The model vgg16 halves an image five times: it needs at least 32 x 32 "
        "pixels; take cnn for smaller ones.");
  return std::make_shared<Vgg16>(shape);
}

}  // namespace topknot::train

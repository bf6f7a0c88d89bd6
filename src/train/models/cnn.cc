// SPDX-License-Identifier: Apache-2.0
//
// cnn: two convolutions and two dense layers, about a million weights on Fashion-MNIST,
// nearly all of them in the first dense layer, where a sparse exchange saves most.

#include "topknot/error.h"
#include "train/models/registry.h"

namespace topknot::train {
namespace {

class Cnn final : public Network {
 public:
  explicit Cnn(const NetworkShape& shape)
      : first_(register_module(
            "first",
            torch::nn::Conv2d(
                torch::nn::Conv2dOptions(shape.image.channels, 32, 3).padding(1)))),
        second_(register_module(
            "second", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 3).padding(1)))),
        hidden_(register_module(
            "hidden", torch::nn::Linear(
                          64 * (shape.image.height / 4) * (shape.image.width / 4), 300))),
        last_(register_module("last", torch::nn::Linear(300, shape.classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(first_(x)), 2);
    x = torch::max_pool2d(torch::relu(second_(x)), 2);
    return last_(torch::relu(hidden_(x.flatten(1))));
  }

 private:
  torch::nn::Conv2d first_;
  torch::nn::Conv2d second_;
  torch::nn::Linear hidden_;
  torch::nn::Linear last_;
};

}  // namespace

std::shared_ptr<Network> model::cnn(Params&, const NetworkShape& shape) {
  if (shape.image.height < 4 || shape.image.width < 4)
    throw ConfigError("The model cnn needs images of at least 4 x 4 pixels.");
  return std::make_shared<Cnn>(shape);
}

}  // namespace topknot::train

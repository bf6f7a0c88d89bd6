// SPDX-License-Identifier: Apache-2.0
//
// mlp: two hidden layers. The smallest model that learns, for tests.

#include "train/models/registry.h"

namespace topknot::train {
namespace {

class Mlp final : public Network {
 public:
  Mlp(std::int64_t pixels, std::int64_t hidden, int classes)
      : first_(register_module("first", torch::nn::Linear(pixels, hidden))),
        second_(register_module("second", torch::nn::Linear(hidden, hidden))),
        last_(register_module("last", torch::nn::Linear(hidden, classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(first_(x.flatten(1)));
    return last_(torch::relu(second_(x)));
  }

 private:
  torch::nn::Linear first_;
  torch::nn::Linear second_;
  torch::nn::Linear last_;
};

}  // namespace

std::shared_ptr<Network> model::mlp(Params& params, const NetworkShape& shape) {
  const auto hidden = params.integer("hidden", 128, 1, 1 << 16, "width of both layers");
  return std::make_shared<Mlp>(static_cast<std::int64_t>(shape.image.size()), hidden,
                               shape.classes);
}

}  // namespace topknot::train

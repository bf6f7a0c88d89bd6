// SPDX-License-Identifier: Apache-2.0
//
// ncf: NeuMF of He et al. (WWW 2017). A user and an item have two embeddings each. One pair is
// multiplied element by element, as in matrix factorisation; the other goes through layers of
// ReLUs. A last layer makes one logit of both. With its defaults it has 31,832,577
// weights on MovieLens 20M, nearly all of them embeddings, of which a batch touches few.

#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/task.h"

namespace topknot::train {
namespace {

constexpr std::int64_t kWidest = 1 << 16;
constexpr double kEmbeddingDeviation = 0.01;

/// "256-256-128-64"
std::vector<std::int64_t> widths(const std::string& text) {
  std::vector<std::int64_t> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t width = 0;
    const auto [rest, error] = std::from_chars(at, end, width);
    if (error != std::errc{} || width < 1 || width > kWidest) break;
    all.push_back(width);
    if (rest == end) {
      if (all.size() > 1 && all[0] % 2 == 0) return all;
      break;
    }
    if (*rest != '-') break;
    at = rest + 1;
  }
  throw ConfigError("The layers of ncf cannot be " + text +
                    "; they are two or more widths, the first even, as in "
                    "256-256-128-64.");
}

class NeuMf final : public RatingModel {
 public:
  NeuMf(std::int64_t users, std::int64_t items, std::int64_t factors,
        const std::vector<std::int64_t>& layers, double dropped)
      : dropped_(dropped),
        mf_user_(register_module("mf_user", torch::nn::Embedding(users, factors))),
        mf_item_(register_module("mf_item", torch::nn::Embedding(items, factors))),
        mlp_user_(
            register_module("mlp_user", torch::nn::Embedding(users, layers[0] / 2))),
        mlp_item_(
            register_module("mlp_item", torch::nn::Embedding(items, layers[0] / 2))) {
    for (std::size_t i = 1; i < layers.size(); ++i)
      mlp_.push_back(register_module("mlp" + std::to_string(i),
                                     torch::nn::Linear(layers[i - 1], layers[i])));
    last_ = register_module("last", torch::nn::Linear(factors + layers.back(), 1));
  }

  torch::Tensor forward(const torch::Tensor& users, const torch::Tensor& items,
                        at::Generator* draws) override {
    const torch::Tensor product = mf_user_(users) * mf_item_(items);
    torch::Tensor x = torch::cat({mlp_user_(users), mlp_item_(items)}, 1);
    for (torch::nn::Linear& layer : mlp_) {
      x = torch::relu(layer(x));
      if (draws != nullptr) x = dropout(x, dropped_, *draws);
    }
    return last_(torch::cat({product, x}, 1)).squeeze(1);
  }

  void draw_weights(std::uint64_t seed) {
    initialise(*this, seed);
    const torch::NoGradGuard no_grad;
    for (const torch::nn::Embedding& one : {mf_user_, mf_item_, mlp_user_, mlp_item_}) {
      const auto fan_in = static_cast<double>(one->weight.size(1));
      one->weight.mul_(kEmbeddingDeviation / std::sqrt(2 / fan_in));
    }
    last_->weight.mul_(std::sqrt(0.5));  // no ReLU follows
  }

 private:
  const double dropped_;
  torch::nn::Embedding mf_user_;
  torch::nn::Embedding mf_item_;
  torch::nn::Embedding mlp_user_;
  torch::nn::Embedding mlp_item_;
  std::vector<torch::nn::Linear> mlp_;
  torch::nn::Linear last_ = nullptr;
};

}  // namespace

std::shared_ptr<RatingModel> model::ncf(Params& params, const RatingShape& shape) {
  const auto factors =
      params.integer("factors", 64, 1, kWidest, "of the product of user and item");
  const auto layers = widths(params.text("layers", "256-256-128-64",
                                         "widths, the first half user and half item"));
  const auto dropped =
      params.number("dropout", 0.5, 0, 0.99, "share that is dropped after each layer");
  auto made = std::make_shared<NeuMf>(shape.users, shape.items, factors, layers, dropped);
  made->draw_weights(shape.seed);
  return made;
}

}  // namespace topknot::train

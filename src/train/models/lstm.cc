// SPDX-License-Identifier: Apache-2.0
//
// lstm: words in, layers of LSTM, the next word out. As 3 x 650 with the embedding tied to the
// output it has 28,949,319 weights for 28,869 word types, which is what ExDyna's published count
// comes to, and 31,819,578 for the 33,278 of the set as published; as 2 x 500 37,319,278.

#include <cmath>
#include <string>

#include "topknot/error.h"
#include "train/models/draws.h"
#include "train/models/registry.h"
#include "train/task.h"

namespace topknot::train {
namespace {

struct Shape {
  std::int64_t words = 0;
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t embedding = 0;
  bool tied = false;  // the output has the embedding's matrix
  double dropout = 0;
  std::int64_t bptt = 0;
};

Shape read(Params& params, std::int64_t words) {
  Shape shape;
  shape.words = words;
  shape.layers = params.integer("layers", 2, 1, 64, "layers of LSTM");
  shape.width = params.integer("width", 500, 1, 1 << 16, "of each layer");
  shape.embedding =
      params.integer("embedding", shape.width, 1, 1 << 16, "numbers that a word becomes");
  shape.tied = params.flag("tied", false, "the output has the embedding's matrix");
  shape.dropout = params.number("dropout", 0.5, 0, 0.99, "between the layers");
  shape.bptt = params.integer("bptt", 70, 1, 1 << 16, "words of a lane in one pass");
  if (shape.tied && shape.embedding != shape.width)
    throw ConfigError("lstm:tied=1 needs an embedding as wide as the layers, and " +
                      std::to_string(shape.embedding) + " is not " +
                      std::to_string(shape.width) + "; leave one of them out.");
  return shape;
}

class Lstm final : public LanguageModel {
 public:
  explicit Lstm(const Shape& shape);

  /// Embedding and output uniform in +-0.1, the output's bias zero, the layers uniform in
  /// +-1/sqrt(width).
  void initialise(std::uint64_t seed) override;
  std::int64_t bptt() const override { return shape_.bptt; }
  States zero_states(std::int64_t lanes) const override;
  torch::Tensor forward(const torch::Tensor& ids, States& states,
                        at::Generator* draws) override;

 private:
  const Shape shape_;
  torch::nn::Embedding embedding_;
  std::vector<torch::nn::LSTM> layers_;
  torch::Tensor output_;  // none when it is tied
  torch::Tensor bias_;
};

Lstm::Lstm(const Shape& shape)
    : shape_(shape),
      embedding_(register_module("embedding",
                                 torch::nn::Embedding(shape.words, shape.embedding))) {
  for (std::int64_t i = 0; i < shape.layers; ++i)
    layers_.push_back(register_module(
        "layer" + std::to_string(i),
        torch::nn::LSTM(i == 0 ? shape.embedding : shape.width, shape.width)));
  if (!shape.tied)
    output_ = register_parameter("output", torch::zeros({shape.words, shape.width}));
  bias_ = register_parameter("bias", torch::zeros({shape.words}));
}

void Lstm::initialise(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  constexpr double kOuter = 0.1;
  const double inner = 1 / std::sqrt(static_cast<double>(shape_.width));
  std::uint64_t stream = 0;
  for (const auto& item : named_parameters()) {
    const bool layer = item.key().starts_with("layer");
    draw_uniform(item.value(), layer ? inner : kOuter, core::random_bits(seed, stream++));
  }
  bias_.zero_();
}

LanguageModel::States Lstm::zero_states(std::int64_t lanes) const {
  States states;
  for (std::int64_t i = 0; i < shape_.layers; ++i)
    states.emplace_back(torch::zeros({1, lanes, shape_.width}),
                        torch::zeros({1, lanes, shape_.width}));
  return states;
}

torch::Tensor Lstm::forward(const torch::Tensor& ids, States& states,
                            at::Generator* draws) {
  const auto thinned = [&](const torch::Tensor& x) {
    return draws == nullptr ? x : dropout(x, shape_.dropout, *draws);
  };
  torch::Tensor x = thinned(embedding_(ids));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    std::tie(x, states[i]) = layers_[i]->forward(x, states[i]);
    x = thinned(x);
  }
  return torch::linear(x, shape_.tied ? embedding_->weight : output_, bias_);
}

}  // namespace

std::shared_ptr<LanguageModel> model::lstm(Params& params, std::int64_t words) {
  return std::make_shared<Lstm>(read(params, words));
}

}  // namespace topknot::train

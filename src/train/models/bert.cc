// SPDX-License-Identifier: Apache-2.0
//
// bert: Devlin et al., NAACL 2019, for pre-training: embeddings of pieces, places and segments,
// blocks of attention, and two heads, for hidden pieces and for the next sentence. With the
// vocabulary of 30,522 pieces base has 110,106,428 weights, the pooler and both heads among
// them; with an output of its own (tied=0) 133,547,324, as Ok-Topk trains it.

#include <cmath>
#include <string>
#include <vector>

#include "topknot/error.h"
#include "train/models/draws.h"
#include "train/models/registry.h"
#include "train/task.h"

namespace topknot::train {
namespace {

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-12));
}

torch::Tensor thinned(const torch::Tensor& x, double share, at::Generator* draws) {
  return draws == nullptr ? x : dropout(x, share, *draws);
}

struct Size {
  const char* name;
  std::int64_t layers, width, heads;
};
constexpr Size kSizes[] = {
    {"base", 12, 768, 12}, {"small", 4, 512, 8}, {"tiny", 2, 128, 2}};

struct Shape {
  std::int64_t pieces = 0;  ///< of the vocabulary
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t length = 128;  ///< of a pair, padded
  std::int64_t places = 512;  ///< that have an embedding
  bool tied = true;           ///< the output has the embedding's matrix
  double dropout = 0.1;
};

Shape read(Params& params, std::int64_t pieces) {
  const std::string size =
      params.choice("size", {"base", "small", "tiny"}, "12 x 768, 4 x 512 or 2 x 128");
  Shape shape;
  shape.pieces = pieces;
  for (const Size& one : kSizes)
    if (size == one.name) {
      shape.layers = one.layers;
      shape.width = one.width;
      shape.heads = one.heads;
    }
  shape.layers = params.integer("layers", shape.layers, 1, 256, "blocks of attention");
  shape.width = params.integer("width", shape.width, 1, 1 << 16, "numbers to a piece");
  shape.heads = params.integer("heads", shape.heads, 1, 1 << 10, "of each block");
  shape.length = params.integer("length", 128, 8, 1 << 16, "pieces of a pair, padded");
  shape.places = params.integer("places", 512, 8, 1 << 16, "that have an embedding");
  shape.tied = params.flag("tied", true, "the output has the embedding's matrix");
  shape.dropout = params.number("dropout", 0.1, 0, 0.99, "share that is dropped");
  if (shape.width % shape.heads != 0)
    throw ConfigError("bert: a width of " + std::to_string(shape.width) +
                      " cannot be shared by " + std::to_string(shape.heads) +
                      " heads; the width must be a multiple of the heads.");
  if (shape.length > shape.places)
    throw ConfigError("bert: pairs of length " + std::to_string(shape.length) +
                      " need as many places, and there are " +
                      std::to_string(shape.places) + ".");
  return shape;
}

/// Attention, then two dense layers, each with a residual connection and a norm.
class Block final : public torch::nn::Module {
 public:
  explicit Block(const Shape& shape)
      : heads_(shape.heads),
        dropout_(shape.dropout),
        query_(register_module("query", torch::nn::Linear(shape.width, shape.width))),
        key_(register_module("key", torch::nn::Linear(shape.width, shape.width))),
        value_(register_module("value", torch::nn::Linear(shape.width, shape.width))),
        mix_(register_module("mix", torch::nn::Linear(shape.width, shape.width))),
        mix_norm_(register_module("mix_norm", layer_norm(shape.width))),
        widen_(register_module("widen", torch::nn::Linear(shape.width, 4 * shape.width))),
        narrow_(
            register_module("narrow", torch::nn::Linear(4 * shape.width, shape.width))),
        narrow_norm_(register_module("narrow_norm", layer_norm(shape.width))) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& unseen,
                        at::Generator* draws) {
    torch::Tensor y = mix_(attend(x, unseen, draws));
    y = mix_norm_(x + thinned(y, dropout_, draws));
    const torch::Tensor z = narrow_(torch::gelu(widen_(y)));
    return narrow_norm_(y + thinned(z, dropout_, draws));
  }

 private:
  torch::Tensor attend(const torch::Tensor& x, const torch::Tensor& unseen,
                       at::Generator* draws) {
    const auto by_head = [&](torch::nn::Linear& project) {
      return project(x).view({x.size(0), x.size(1), heads_, -1}).transpose(1, 2);
    };
    const torch::Tensor query = by_head(query_);
    const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
    const torch::Tensor scores =
        torch::matmul(query * scale, by_head(key_).transpose(2, 3)) + unseen;
    const torch::Tensor shares = thinned(scores.softmax(-1), dropout_, draws);
    return torch::matmul(shares, by_head(value_)).transpose(1, 2).flatten(2);
  }

  const std::int64_t heads_;
  const double dropout_;
  torch::nn::Linear query_;
  torch::nn::Linear key_;
  torch::nn::Linear value_;
  torch::nn::Linear mix_;
  torch::nn::LayerNorm mix_norm_;
  torch::nn::Linear widen_;
  torch::nn::Linear narrow_;
  torch::nn::LayerNorm narrow_norm_;
};

class Bert final : public PairModel {
 public:
  explicit Bert(const Shape& shape);

  /// Matrices uniform with BERT's deviation of 0.02, norms one, biases zero.
  void initialise(std::uint64_t seed) override;
  std::int64_t length() const override { return shape_.length; }
  Logits forward(const Input& input, at::Generator* draws) override;

 private:
  const Shape shape_;
  torch::nn::Embedding piece_;
  torch::nn::Embedding place_;
  torch::nn::Embedding segment_;
  torch::nn::LayerNorm norm_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear pooler_{nullptr};
  torch::nn::Linear next_{nullptr};
  torch::nn::Linear transform_{nullptr};
  torch::nn::LayerNorm transform_norm_{nullptr};
  torch::Tensor output_;  // none when it is tied
  torch::Tensor output_bias_;
};

Bert::Bert(const Shape& shape)
    : shape_(shape),
      piece_(register_module("piece", torch::nn::Embedding(shape.pieces, shape.width))),
      place_(register_module("place", torch::nn::Embedding(shape.places, shape.width))),
      segment_(register_module("segment", torch::nn::Embedding(2, shape.width))),
      norm_(register_module("norm", layer_norm(shape.width))) {
  for (std::int64_t i = 0; i < shape.layers; ++i)
    blocks_.push_back(
        register_module("block" + std::to_string(i), std::make_shared<Block>(shape)));
  pooler_ = register_module("pooler", torch::nn::Linear(shape.width, shape.width));
  next_ = register_module("next", torch::nn::Linear(shape.width, 2));
  transform_ = register_module("transform", torch::nn::Linear(shape.width, shape.width));
  transform_norm_ = register_module("transform_norm", layer_norm(shape.width));
  if (!shape.tied)
    output_ = register_parameter("output", torch::zeros({shape.pieces, shape.width}));
  output_bias_ = register_parameter("output_bias", torch::zeros({shape.pieces}));
}

void Bert::initialise(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  constexpr double kDeviation = 0.02;
  std::uint64_t stream = 0;
  for (const auto& item : named_parameters()) {
    torch::Tensor weight = item.value();
    const std::uint64_t own = core::random_bits(seed, stream++);
    if (weight.dim() < 2)
      weight.fill_(item.key().ends_with("bias") ? 0 : 1);
    else
      draw_uniform(weight, kDeviation * std::sqrt(3.0), own);
  }
}

PairModel::Logits Bert::forward(const Input& input, at::Generator* draws) {
  const torch::Tensor places = torch::arange(input.ids.size(1));
  torch::Tensor x = norm_(piece_(input.ids) + place_(places) + segment_(input.segments));
  x = thinned(x, shape_.dropout, draws);
  for (const auto& block : blocks_) x = block->forward(x, input.unseen, draws);

  const torch::Tensor whole = torch::tanh(pooler_(x.select(1, 0)));
  const torch::Tensor told = x.flatten(0, 1).index_select(0, input.hidden);
  const torch::Tensor shaped = transform_norm_(torch::gelu(transform_(told)));
  return {torch::linear(shaped, shape_.tied ? piece_->weight : output_, output_bias_),
          next_(thinned(whole, shape_.dropout, draws))};
}

}  // namespace

std::shared_ptr<PairModel> model::bert(Params& params, std::int64_t pieces) {
  return std::make_shared<Bert>(read(params, pieces));
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// bert: Devlin et al., NAACL 2019, for pre-training: embeddings of pieces, places and segments,
// blocks of attention, and two heads, for hidden pieces and for the next sentence. With the
// vocabulary of 30,522 pieces base has 110,106,428 weights, the pooler and both heads among
// them; with an output of its own (tied=0) 133,547,324, as Ok-Topk trains it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "topknot/params.h"

namespace topknot::train {

struct BertShape {
  std::int64_t pieces = 0;  ///< of the vocabulary
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t length = 128;  ///< of a pair, padded
  std::int64_t places = 512;  ///< that have an embedding
  bool tied = true;           ///< the output has the embedding's matrix
  double dropout = 0.1;

  /// Reads "bert:size=small,length=64". Throws ConfigError.
  static BertShape read(const Spec& spec);
};

class BertBlock;

class Bert final : public torch::nn::Module {
 public:
  explicit Bert(const BertShape& shape);

  /// Draws all weights anew: matrices uniform with BERT's deviation of 0.02, norms one, biases
  /// zero.
  void initialise(std::uint64_t seed);

  struct Input {
    torch::Tensor ids;       ///< (pairs, length)
    torch::Tensor segments;  ///< (pairs, length), 0 or 1
    torch::Tensor unseen;    ///< (pairs, 1, 1, length), -infinity at padding, else 0
    torch::Tensor hidden;    ///< where a piece is to be told, in the flattened ids
  };
  struct Logits {
    torch::Tensor pieces;  ///< (hidden, vocabulary)
    torch::Tensor next;    ///< (pairs, 2)
  };
  /// Drops nothing when `draws` is null.
  Logits forward(const Input& input, at::Generator* draws);

 private:
  const BertShape shape_;
  torch::nn::Embedding piece_;
  torch::nn::Embedding place_;
  torch::nn::Embedding segment_;
  torch::nn::LayerNorm norm_;
  std::vector<std::shared_ptr<BertBlock>> blocks_;
  torch::nn::Linear pooler_{nullptr};
  torch::nn::Linear next_{nullptr};
  torch::nn::Linear transform_{nullptr};
  torch::nn::LayerNorm transform_norm_{nullptr};
  torch::Tensor output_;  // none when it is tied
  torch::Tensor output_bias_;
};

}  // namespace topknot::train

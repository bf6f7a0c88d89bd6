// SPDX-License-Identifier: Apache-2.0
//
// lstm: words in, layers of LSTM, the next word out. As 3 x 650 with the embedding tied to the
// output it has 28,949,319 weights for 28,869 word types, which is what ExDyna's
// published count comes to, and 31,819,578 for the 33,278 of the set as published; as 2 x 500 37,319,278.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "topknot/params.h"

namespace topknot::train {

struct WordLstmShape {
  std::int64_t words = 0;
  std::int64_t layers = 2;
  std::int64_t width = 500;
  std::int64_t embedding = 500;
  bool tied = false;  ///< the output has the embedding's matrix
  double dropout = 0.5;
  std::int64_t bptt = 70;  ///< words of a lane in one pass

  /// Reads "lstm:layers=3,width=650,tied=1". Throws ConfigError, also where a tied output
  /// does not fit the embedding.
  static WordLstmShape read(const Spec& spec, std::int64_t words);
};

class WordLstm final : public torch::nn::Module {
 public:
  explicit WordLstm(const WordLstmShape& shape);

  /// Draws all weights anew: embedding and output uniform in +-0.1, the output's bias zero,
  /// the layers uniform in +-1/sqrt(width).
  void initialise(std::uint64_t seed);

  /// Hidden and cell state of every layer, each (1, lanes, width).
  using States = std::vector<std::tuple<torch::Tensor, torch::Tensor>>;
  States zero_states(std::int64_t lanes) const;

  /// Logits (time, lanes, words) of the words that follow `ids` (time, lanes), going on from
  /// `states`, which become those after the last. Drops nothing when `draws` is null.
  torch::Tensor forward(const torch::Tensor& ids, States& states, at::Generator* draws);

 private:
  const WordLstmShape shape_;
  torch::nn::Embedding embedding_;
  std::vector<torch::nn::LSTM> layers_;
  torch::Tensor output_;  // none when it is tied
  torch::Tensor bias_;
};

}  // namespace topknot::train

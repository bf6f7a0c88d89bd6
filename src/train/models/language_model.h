// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace topknot::train {

/// Words in, the next words out, with a recurrent state.
class LanguageModel : public torch::nn::Module {
 public:
  /// Draws all weights anew from `seed` alone.
  virtual void initialise(std::uint64_t seed) = 0;

  /// Words of a lane in one pass.
  virtual std::int64_t bptt() const = 0;

  /// Hidden and cell state of every layer, each (1, lanes, width).
  using States = std::vector<std::tuple<torch::Tensor, torch::Tensor>>;
  virtual States zero_states(std::int64_t lanes) const = 0;

  /// Logits (time, lanes, words) of the words that follow `ids` (time, lanes). `states` are
  /// those before the first word, and become those after the last. Dropout draws from `draws`;
  /// null: no dropout.
  virtual torch::Tensor forward(const torch::Tensor& ids, States& states,
                                at::Generator* draws) = 0;
};

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace topknot::train {

/// Pairs of stretches of text in, as word pieces; their hidden pieces out, and whether the second
/// stretch follows the first.
class PairModel : public torch::nn::Module {
 public:
  /// Draws all weights anew from `seed` alone.
  virtual void initialise(std::uint64_t seed) = 0;

  /// Pieces of a pair, padded.
  virtual std::int64_t length() const = 0;

  struct Input {
    torch::Tensor ids;       ///< (pairs, length)
    torch::Tensor segments;  ///< (pairs, length), 0 or 1
    torch::Tensor unseen;    ///< (pairs, 1, 1, length), -infinity at padding, else 0
    torch::Tensor hidden;    ///< positions of hidden pieces in the flattened ids
  };
  struct Logits {
    torch::Tensor pieces;  ///< (hidden, vocabulary)
    torch::Tensor next;    ///< (pairs, 2)
  };
  /// Dropout draws from `draws`; null: no dropout.
  virtual Logits forward(const Input& input, at::Generator* draws) = 0;
};

}  // namespace topknot::train

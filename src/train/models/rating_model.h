// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace topknot::train {

/// How likely a user is to like an item, as a logit.
class RatingModel : public torch::nn::Module {
 public:
  /// `users` and `items` are equally many numbers, and so are the logits. What is dropped is
  /// drawn from `draws`; without it nothing is.
  virtual torch::Tensor forward(const torch::Tensor& users, const torch::Tensor& items,
                                at::Generator* draws) = 0;
};

/// What a model is to be made for; its weights are from `seed` alone.
struct RatingShape {
  std::uint32_t users = 0;
  std::uint32_t items = 0;
  std::uint64_t seed = 0;
};

}  // namespace topknot::train

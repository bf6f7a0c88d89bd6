// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace topknot::train {

/// How likely a user is to like an item, as a logit.
class RatingModel : public torch::nn::Module {
 public:
  /// One logit for each pair of `users` and `items`. Dropout draws from `draws`; null: no
  /// dropout.
  virtual torch::Tensor forward(const torch::Tensor& users, const torch::Tensor& items,
                                at::Generator* draws) = 0;
};

/// The data that a model is made for. Its weights depend on `seed` alone.
struct RatingShape {
  std::uint32_t users = 0;
  std::uint32_t items = 0;
  std::uint64_t seed = 0;
};

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "topknot/params.h"

namespace topknot::train {

/// Neural collaborative filtering: how likely a user is to like an item, as a logit.
class Ncf : public torch::nn::Module {
 public:
  /// `users` and `items` are equally many numbers, and so are the logits. What is dropped is
  /// drawn from `draws`; without it nothing is.
  virtual torch::Tensor forward(const torch::Tensor& users, const torch::Tensor& items,
                                at::Generator* draws) = 0;
};

/// "factors=64,layers=256-256-128-64,dropout=0.5", with weights from `seed` alone. Throws
/// ConfigError.
std::shared_ptr<Ncf> make_ncf(Params& params, std::uint32_t users, std::uint32_t items,
                              std::uint64_t seed);

}  // namespace topknot::train

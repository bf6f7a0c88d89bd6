// SPDX-License-Identifier: Apache-2.0
//
// One rank's copy of the model, tied to the engine: every gradient is a view into the
// engine's memory, so autograd adds straight into the bucket, and a hook on its accumulation
// tells the engine when it is complete.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topknot/engine.h"

namespace topknot::train {

/// The values of a contiguous f32 tensor, where they are.
inline std::span<float> span_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

class Replica {
 public:
  Replica(torch::nn::Module& model, Transport& link, const EngineOptions& options);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  Engine& engine() noexcept { return *engine_; }
  std::size_t size() const noexcept { return parameters_.size(); }
  const TensorSlot& tensor(std::size_t parameter) const {
    return layout_.tensors[parameter];
  }
  /// Of the parameters, in their order.
  std::vector<std::size_t> sizes() const;
  std::span<float> weight(std::size_t parameter);
  std::span<float> gradient(std::size_t parameter) {
    return engine_->gradient(parameter);
  }
  /// The squared length of the whole gradient.
  double gradient_squares();

  /// Goes backward. Gradients are called ready as they come when this is the `last` pass of
  /// the step, and only added up when it is not.
  void backward(const torch::Tensor& loss, bool last);
  /// Called with each parameter just before it is called ready, on backward's thread.
  std::function<void(std::size_t)> before_ready = [](std::size_t) {};

  /// The running statistics of the model's norms: f32, not trained, each rank's own.
  const std::vector<std::pair<std::string, torch::Tensor>>& statistics() const noexcept {
    return statistics_;
  }

  /// Of all weights, in their order; 16 hexadecimal digits.
  std::string weights_hash();
  /// Of names and shapes: equal for models that can take each other's checkpoints.
  std::string fingerprint() const;

 private:
  void tie();

  std::vector<torch::Tensor> parameters_;
  std::vector<std::pair<std::string, torch::Tensor>> statistics_;
  Layout layout_;
  std::unique_ptr<Engine> engine_;
  std::vector<c10::intrusive_ptr<torch::autograd::Node>>
      accumulators_;  // hooks live in them
  std::vector<std::uintptr_t> hooks_;
  bool last_ = false;
};

}  // namespace topknot::train

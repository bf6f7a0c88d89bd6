// SPDX-License-Identifier: Apache-2.0
//
// One rank's copy of the model, tied to the engine. Every gradient is a view of the engine's
// memory, so autograd accumulates into the bucket itself; a hook on the accumulation tells the
// engine when a gradient is ready.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topknot/engine.h"

namespace topknot::train {

/// A view of the values of a contiguous f32 tensor.
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
  /// The number of values of each parameter.
  std::vector<std::size_t> sizes() const;
  std::span<float> weight(std::size_t parameter);
  std::span<float> gradient(std::size_t parameter) {
    return engine_->gradient(parameter);
  }
  /// The squared length of the whole gradient.
  double gradient_squares();

  /// The backward pass, which adds to the gradients. In the `last` one of a step it hands each
  /// gradient to the engine as soon as it is complete.
  void backward(const torch::Tensor& loss, bool last);
  /// Called with each parameter just before its gradient is handed over, on backward's thread.
  std::function<void(std::size_t)> before_ready = [](std::size_t) {};

  /// The running statistics of the model's norms: f32, not trained, each rank's own.
  const std::vector<std::pair<std::string, torch::Tensor>>& statistics() const noexcept {
    return statistics_;
  }

  /// A hash of all weights, in the order of the parameters; 16 hexadecimal digits.
  std::string weights_hash();
  /// A hash of names and shapes: equal for models that can load each other's checkpoints.
  std::string fingerprint() const;

 private:
  void tie();

  std::vector<torch::Tensor> parameters_;
  std::vector<std::pair<std::string, torch::Tensor>> statistics_;
  Layout layout_;
  std::unique_ptr<Engine> engine_;
  std::vector<c10::intrusive_ptr<torch::autograd::Node>>
      accumulators_;  // they own the hooks
  std::vector<std::uintptr_t> hooks_;
  bool last_ = false;
};

}  // namespace topknot::train

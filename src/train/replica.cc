// SPDX-License-Identifier: Apache-2.0
#include "train/replica.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "core/hash.h"
#include "core/text.h"
#include "topknot/error.h"

namespace topknot::train {
Replica::Replica(torch::nn::Module& model, Transport& link,
                 const EngineOptions& options) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().scalar_type() != torch::kFloat)
      throw ConfigError("The parameter " + item.key() +
                        " is not f32; only f32 is trained.");
    if (!item.value().is_contiguous())
      throw ContractError("the parameter " + item.key() + " is not contiguous");
    parameters_.push_back(item.value());
    const auto sizes = item.value().sizes();
    layout_.tensors.push_back({item.key(), layout_.size(), {sizes.begin(), sizes.end()}});
  }
  for (const auto& item : model.named_buffers())
    if (item.value().scalar_type() == torch::kFloat)
      statistics_.emplace_back(item.key(), item.value());
  engine_ = std::make_unique<Engine>(link, layout_, options);
  tie();
}

Replica::~Replica() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    accumulators_[i]->del_post_hook(hooks_[i]);
    parameters_[i].mutable_grad().reset();
  }
}

void Replica::tie() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].mutable_grad() =
        torch::from_blob(engine_->gradient(i).data(), parameters_[i].sizes());
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[i]));
    hooks_.push_back(accumulators_.back()->add_post_hook(
        std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, i](const torch::autograd::variable_list& outputs,
                      const torch::autograd::variable_list&) {
              if (last_) {
                before_ready(i);
                engine_->ready(i);
              }
              return outputs;
            })));
  }
}

std::vector<std::size_t> Replica::sizes() const {
  std::vector<std::size_t> all;
  for (const torch::Tensor& parameter : parameters_)
    all.push_back(static_cast<std::size_t>(parameter.numel()));
  return all;
}

std::span<float> Replica::weight(std::size_t parameter) {
  return span_of(parameters_[parameter]);
}

double Replica::gradient_squares() {
  double squares = 0;
  for (std::size_t i = 0; i < size(); ++i)
    for (const float g : gradient(i)) squares += static_cast<double>(g) * g;
  return squares;
}

void Replica::backward(const torch::Tensor& loss, bool last) {
  last_ = last;
  loss.backward();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].grad().data_ptr<float>() != engine_->gradient(i).data())
      throw ContractError("the gradient of " + layout_.tensors[i].name +
                          " is no longer the engine's memory: was it set to none?");
}

std::string Replica::weights_hash() {
  core::Hasher hasher;
  for (std::size_t i = 0; i < size(); ++i) hasher.add(std::as_bytes(weight(i)));
  return core::hexadecimal(hasher.value());
}

std::string Replica::fingerprint() const {
  core::Hasher hasher;
  for (const TensorSlot& tensor : layout_.tensors) {
    hasher.add(std::as_bytes(std::span(tensor.name)));
    hasher.add(std::as_bytes(std::span(tensor.shape)));
  }
  return core::hexadecimal(hasher.value());
}

}  // namespace topknot::train

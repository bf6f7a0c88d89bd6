// SPDX-License-Identifier: Apache-2.0
//
// hook: submits DDP's buckets to the session, in C++, so that backward never waits for
// Python.
//
// DDP puts its buckets together anew after the first step, in the order in which gradients
// became ready, and does not announce it. So every bucket's parameters are compared with
// those that its number had before. Where they differ, the slots from this number on are
// removed, and their residuals are carried over by parameter; those before it are the same
// and may be in the step already. All ranks have the same buckets, so they do so alike.

#include "hook.h"

#include <map>
#include <unordered_map>

#include "topknot/error.h"

namespace topknot::python {
namespace {

using Signature = std::vector<const c10::TensorImpl*>;

Future completed(const at::Tensor& buffer) {
  std::vector<c10::Device> devices;
  if (!buffer.is_cpu()) devices.push_back(buffer.device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), devices);
  future->markCompleted(c10::IValue(buffer));
  return future;
}

class Hook final : public c10d::CommHookInterface {
 public:
  Hook(std::shared_ptr<Session> session,
       const std::vector<std::pair<std::string, at::Tensor>>& parameters, Group node)
      : session_(std::move(session)), node_(std::move(node)) {
    for (const auto& [name, parameter] : parameters)
      names_.emplace(parameter.unsafeGetTensorImpl(), name);
  }

  Future runHook(c10d::GradBucket& bucket) override {
    const at::Tensor& buffer = bucket.getBuffer();
    if (buffer.is_sparse())
      throw ConfigError(
          "A gradient came as a sparse tensor, as of an Embedding with sparse=True, "
          "which topknot does not reduce: make it with sparse=False.");
    if (session_->rehearses()) return completed(buffer);
    const Known& known = slot_for(bucket);
    if (known.shards)
      return session_->reduce_by_nodes(known.slot, buffer, known.shards, bucket.isLast());
    return session_->reduce(known.slot, buffer, {.last = bucket.isLast()});
  }

  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  struct Known {
    Signature signature;
    int slot;
    std::shared_ptr<NodeShards> shards;  // null where there is one level
  };

  const Known& slot_for(const c10d::GradBucket& bucket) {
    const std::vector<at::Tensor> parameters = bucket.getParameters();
    Signature signature;
    signature.reserve(parameters.size());
    for (const at::Tensor& parameter : parameters)
      signature.push_back(parameter.unsafeGetTensorImpl());
    const std::size_t number = bucket.getIndex();
    const auto known = known_.find(number);
    if (known != known_.end() && known->second.signature == signature)
      return known->second;
    std::vector<int> outdated;
    for (auto next = known_.lower_bound(number); next != known_.end();
         next = known_.erase(next))
      outdated.push_back(next->second.slot);
    session_->remove_slots(outdated);
    Layout layout = layout_of(parameters);
    const auto shards = node_ ? std::make_shared<NodeShards>(node_, layout) : nullptr;
    // A node's shard is made on the communication thread, and goes by way of the host.
    const int slot =
        shards ? session_->add_slot(shards->layout())
               : session_->add_slot(std::move(layout), bucket.getBuffer().device());
    return known_[number] = {std::move(signature), slot, shards};
  }

  Layout layout_of(const std::vector<at::Tensor>& parameters) const {
    Layout layout;
    for (const at::Tensor& parameter : parameters) {
      const auto name = names_.find(parameter.unsafeGetTensorImpl());
      if (name == names_.end())
        throw ConfigError(
            "DDP reduces a parameter that the model did not have when topknot was "
            "attached: build DDP, and attach, after the last parameter is made.");
      TensorSlot tensor{name->second, layout.size(), {}};
      for (const std::int64_t extent : parameter.sizes())
        tensor.shape.push_back(static_cast<std::uint64_t>(extent));
      layout.tensors.push_back(std::move(tensor));
    }
    return layout;
  }

  const std::shared_ptr<Session> session_;
  const Group node_;  // null where there is one level
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
  std::map<std::size_t, Known> known_;  // by the bucket's number
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_hook(
    std::shared_ptr<Session> session,
    const std::vector<std::pair<std::string, at::Tensor>>& parameters, Group node) {
  return std::make_unique<Hook>(std::move(session), parameters, std::move(node));
}

}  // namespace topknot::python

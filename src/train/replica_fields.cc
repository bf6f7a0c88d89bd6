// SPDX-License-Identifier: Apache-2.0
#include "train/replica_fields.h"

#include <ATen/Version.h>

#include "core/hash.h"
#include "core/text.h"
#include "core/wire/wire.h"

namespace topknot::train {
namespace {

std::string shape_text(const TensorSlot& tensor) {
  std::string text;
  for (const auto size : tensor.shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text.empty() ? "one number" : text;
}

std::string hash_text(std::span<const float> values) {
  return core::hexadecimal(core::hash(std::as_bytes(values)));
}

void add_optimizer(Optimizer& optimizer, const std::string& whose, const Replica& replica,
                   Fields& fields) {
  fields.push_back({"steps of the " + whose, std::to_string(optimizer.steps())});
  for (std::size_t s = 0; s < optimizer.slots().size(); ++s)
    for (std::size_t i = 0; i < replica.size(); ++i)
      fields.push_back({"hash of the " + whose + "'s " +
                            std::string(optimizer.slots()[s]) + " of " +
                            replica.tensor(i).name,
                        hash_text(optimizer.slot(s, i))});
}

/// The state of the learning rate's schedule as text.
class RatesText final : public StateVisitor {
 public:
  void field(std::string_view name, float& value) override { add(name, value); }
  void field(std::string_view name, double& value) override { add(name, value); }
  void field(std::string_view name, std::int64_t& value) override {
    add(name, static_cast<double>(value));
  }
  void field(std::string_view name, std::uint64_t& value) override {
    add(name, static_cast<double>(value));
  }
  void field(std::string_view, std::vector<std::uint64_t>&) override {}
  void coordinates(std::string_view, std::span<float>) override {}

  std::string text;

 private:
  void add(std::string_view name, double value) {
    if (!text.empty()) text += ", ";
    text.append(name).append(" ").append(core::shortest(value));
  }
};

}  // namespace

Fields build_fields() {
  return {{"version of the wire format", std::to_string(core::kWireVersion)},
          {"torch", TORCH_VERSION},
          {"torch's instruction set (ATEN_CPU_CAPABILITY)", at::get_cpu_capability()}};
}

Fields fields_of(const TrainOptions& options) {
  const auto list = [](const auto& numbers) {
    std::string text;
    for (const auto number : numbers) {
      if (!text.empty()) text += ' ';
      text += std::to_string(number);
    }
    return text;
  };
  const auto yes = [](bool is) { return std::string(is ? "yes" : "no"); };
  return {{"whether checkpoints are written", yes(!options.checkpoints.empty())},
          {"whether a run is resumed", yes(options.resume)},
          {"whether gradients are recorded", yes(!options.record.file.empty())},
          {"steps that are recorded", list(options.record.steps)},
          {"ranks that are recorded", list(options.record.ranks)}};
}

Fields model_fields(const Replica& replica, const Task& task) {
  Fields fields{{"training samples", std::to_string(task.train_samples())},
                {"test samples", std::to_string(task.test_samples())},
                {"fingerprint of the data", core::hexadecimal(task.data_fingerprint())}};
  for (std::size_t i = 0; i < replica.size(); ++i)
    fields.push_back(
        {"shape of " + replica.tensor(i).name, shape_text(replica.tensor(i))});
  return fields;
}

Fields state_fields(Live live) {
  RatesText rates;
  live.rates.visit_state(rates);
  Fields fields{{"step", std::to_string(live.position.step)},
                {"epoch", std::to_string(live.position.epoch)},
                {"sample", std::to_string(live.position.sample)},
                {"state of the lr_schedule", rates.text}};
  for (std::size_t i = 0; i < live.replica.size(); ++i)
    fields.push_back({"hash of the weights " + live.replica.tensor(i).name,
                      hash_text(live.replica.weight(i))});
  if (live.outer != nullptr)
    add_optimizer(*live.outer, "outer optimizer", live.replica, fields);
  else
    add_optimizer(live.optimizer, "optimizer", live.replica, fields);
  return fields;
}

}  // namespace topknot::train

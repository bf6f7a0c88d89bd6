// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <algorithm>
#include <string>

#include "topknot/error.h"

namespace topknot::train {
namespace {

// Names in the containers: a prefix for each kind.
const std::string kWeight = "weight/";
const std::string kOptimizer = "optimizer";
const std::string kOuter = "outer";
const std::string kStatistic = "statistic/";
const std::string kCarried = "carried/";
const std::string kState = "state/";
const std::string kUpdates =
    "engine.updates";  // whether any residual is in units of weights

/// Writes the state of the rates, as arrays of one element.
class FieldsInto final : public StateVisitor {
 public:
  explicit FieldsInto(store::Container& into) : into_(into) {}
  void field(std::string_view name, float& value) override { keep(name, value); }
  void field(std::string_view name, double& value) override { keep(name, value); }
  void field(std::string_view name, std::int64_t& value) override { keep(name, value); }
  void field(std::string_view name, std::uint64_t& value) override { keep(name, value); }
  void field(std::string_view, std::vector<std::uint64_t>&) override {}
  void coordinates(std::string_view, std::span<float>) override {}

 private:
  template <typename T>
  void keep(std::string_view name, T value) {
    into_.keep("rates/" + std::string(name), value);
  }
  store::Container& into_;
};

/// Reads what FieldsInto has written.
class FieldsFrom final : public StateVisitor {
 public:
  explicit FieldsFrom(const store::Container& from) : from_(from) {}
  void field(std::string_view name, float& value) override { read(name, value); }
  void field(std::string_view name, double& value) override { read(name, value); }
  void field(std::string_view name, std::int64_t& value) override { read(name, value); }
  void field(std::string_view name, std::uint64_t& value) override { read(name, value); }
  void field(std::string_view, std::vector<std::uint64_t>&) override {}
  void coordinates(std::string_view, std::span<float>) override {}

 private:
  template <typename T>
  void read(std::string_view name, T& value) {
    value = from_.scalar<T>("rates/" + std::string(name));
  }
  const store::Container& from_;
};

void keep_state(State state, store::Container& own) {
  for (auto& [key, value] : state.values) {
    const std::string name = kState + key;
    std::visit([&](auto& one) { own.keep(name, std::move(one)); }, value);
    if (!std::holds_alternative<std::vector<float>>(value)) continue;
    state.estimates.contains(key) ? store::mark_averaged(own, name)
                                  : store::mark_folded(own, name);
  }
}

// Scalars of a memory or a bucket are the same on all ranks and stay valid when the number of
// ranks changes. Thresholds and regions do not: they are computed anew.
bool is_shared(std::string_view key, const State::Value& value) {
  return !std::holds_alternative<std::vector<float>>(value) &&
         (key.find("/memory.") != key.npos || key.find("/bucket.") != key.npos);
}

void keep_shared_state(const State& state, store::Container& shared) {
  for (const auto& [key, value] : state.values)
    if (is_shared(key, value))
      std::visit([&](const auto& one) { shared.keep(kState + key, one); }, value);
}

template <typename T>
State::Value value_of(const store::Container& own, const std::string& name, bool scalar) {
  const std::span<const T> values = own.values<T>(name);
  if (scalar) return values.front();
  if constexpr (std::same_as<T, float> || std::same_as<T, std::uint64_t>)
    return std::vector<T>(values.begin(), values.end());
  throw DataError("The checkpoint's " + name + " is a list where a number should be.");
}

State state_of(const store::Container& own) {
  State state;
  for (const auto& [name, array] : own.arrays()) {
    if (!name.starts_with(kState)) continue;
    const bool scalar = array.shape.empty();
    State::Value& value = state.values[name.substr(kState.size())];
    switch (array.dtype) {
      case store::Dtype::f32:
        value = value_of<float>(own, name, scalar);
        break;
      case store::Dtype::f64:
        value = value_of<double>(own, name, scalar);
        break;
      case store::Dtype::i64:
        value = value_of<std::int64_t>(own, name, scalar);
        break;
      case store::Dtype::u64:
        value = value_of<std::uint64_t>(own, name, scalar);
        break;
      default:
        throw DataError("The checkpoint's " + name + " is of no type we keep.");
    }
  }
  return state;
}

void copy(const store::Container& from, const std::string& name, std::span<float> to) {
  const std::span<const float> values = from.values<float>(name);
  if (values.size() != to.size())
    throw ConfigError("The checkpoint's " + name + " has " +
                      std::to_string(values.size()) + " values where this model has " +
                      std::to_string(to.size()) + ".");
  std::copy(values.begin(), values.end(), to.begin());
}

std::string slot_name(const std::string& whose, std::string_view slot,
                      const TensorSlot& tensor) {
  return whose + "/" + std::string(slot) + "/" + tensor.name;
}

void keep_optimizer(Optimizer& optimizer, const std::string& whose,
                    const Replica& replica, store::Container& into) {
  for (std::size_t i = 0; i < replica.size(); ++i)
    for (std::size_t s = 0; s < optimizer.slots().size(); ++s)
      if (!optimizer.slot(s, i).empty())
        into.view(slot_name(whose, optimizer.slots()[s], replica.tensor(i)),
                  std::span<const float>(optimizer.slot(s, i)), replica.tensor(i).shape);
  into.keep(whose + ".steps", optimizer.steps());
}

void restore_optimizer(const store::Container& from, const std::string& whose,
                       const Replica& replica, Optimizer& optimizer) {
  for (std::size_t i = 0; i < replica.size(); ++i)
    for (std::size_t s = 0; s < optimizer.slots().size(); ++s) {
      if (optimizer.slot(s, i).empty()) continue;
      const std::string name = slot_name(whose, optimizer.slots()[s], replica.tensor(i));
      if (!from.has(name))
        throw ConfigError("The checkpoint was made with another optimizer: it has no " +
                          name + ". Resume with the optimizer it was made with.");
      copy(from, name, optimizer.slot(s, i));
    }
  optimizer.steps() = from.scalar<std::uint64_t>(whose + ".steps");
}

bool has_updates(Replica& replica) {
  for (std::size_t i = 0; i < replica.size(); ++i)
    if (replica.engine().units(i) == Units::updates) return true;
  return false;
}

void refuse_other_units(const store::Container& shared, Replica& replica) {
  const bool then = shared.has(kUpdates) && shared.scalar<std::uint64_t>(kUpdates) != 0;
  if (has_updates(replica) != then)
    throw ConfigError(std::string("The checkpoint was made with exchange=") +
                      (then ? "updates" : "gradients") +
                      ", and its residuals are in other units: resume with the same.");
}

}  // namespace

namespace {

store::Container shared_part(Live live, const State& state) {
  store::Container shared;
  shared.metadata["format"] = "pt";
  for (std::size_t i = 0; i < live.replica.size(); ++i) {
    const TensorSlot& tensor = live.replica.tensor(i);
    shared.view(kWeight + tensor.name, std::span<const float>(live.replica.weight(i)),
                tensor.shape);
  }
  keep_optimizer(live.optimizer, kOptimizer, live.replica, shared);
  if (live.outer != nullptr) keep_optimizer(*live.outer, kOuter, live.replica, shared);
  for (const auto& [name, tensor] : live.replica.statistics())
    shared.view(kStatistic + name, std::span<const float>(span_of(tensor)));
  shared.keep("position.epoch", live.position.epoch);
  shared.keep("position.sample", live.position.sample);
  shared.keep("position.step", live.position.step);
  shared.keep("engine.steps", live.replica.engine().steps());
  shared.keep(kUpdates, std::uint64_t{has_updates(live.replica)});
  keep_shared_state(state, shared);
  FieldsInto fields(shared);
  live.rates.visit_state(fields);
  return shared;
}

store::Container own_part(Live live, State state) {
  store::Container own;
  keep_state(std::move(state), own);
  if (live.outer != nullptr)
    keep_optimizer(live.optimizer, kOptimizer, live.replica, own);
  for (const auto& [name, tensor] : live.replica.statistics())
    own.view(kStatistic + name, std::span<const float>(span_of(tensor)));
  for (const auto& [name, tensor] : live.task.carried())
    own.view(kCarried + name, std::span<const float>(span_of(tensor)));
  return own;
}

}  // namespace

Snapshot snapshot(Live live) {
  State state;
  live.replica.engine().save(state);
  store::Container shared = shared_part(live, state);
  return {std::move(shared), own_part(live, std::move(state))};
}

void restore(const store::Loaded& from, Live live) {
  const store::Container& shared = from.shared;
  const bool was_local = shared.has(kOuter + ".steps");
  if (was_local != (live.outer != nullptr))
    throw ConfigError(std::string("The checkpoint was made with") +
                      (was_local ? "" : "out") +
                      " local steps, whose residuals are in other units: resume "
                      "with local_steps " +
                      (was_local ? "above 1." : "of 1."));
  refuse_other_units(shared, live.replica);
  for (std::size_t i = 0; i < live.replica.size(); ++i) {
    const TensorSlot& tensor = live.replica.tensor(i);
    copy(shared, kWeight + tensor.name, live.replica.weight(i));
  }
  const bool alone = live.outer != nullptr && from.own.has(kOptimizer + ".steps");
  restore_optimizer(alone ? from.own : shared, kOptimizer, live.replica, live.optimizer);
  if (was_local) restore_optimizer(shared, kOuter, live.replica, *live.outer);
  for (const auto& [name, tensor] : live.replica.statistics()) {
    const bool mine = from.own.has(kStatistic + name);
    copy(mine ? from.own : shared, kStatistic + name, span_of(tensor));
  }
  for (const auto& [name, tensor] : live.task.carried())
    if (from.own.has(kCarried + name)) copy(from.own, kCarried + name, span_of(tensor));
  live.position.epoch = shared.scalar<std::uint64_t>("position.epoch");
  live.position.sample = shared.scalar<std::uint64_t>("position.sample");
  live.position.step = shared.scalar<std::uint64_t>("position.step");
  FieldsFrom fields(shared);
  live.rates.visit_state(fields);

  State state = state_of(from.own);
  if (from.resized) {
    state.values.merge(state_of(shared).values);
    // Checkpoints from before there were local steps lack it; then it equals the step.
    state.values[std::string(kEngineSteps)] =
        shared.has("engine.steps") ? shared.scalar<std::uint64_t>("engine.steps")
                                   : live.position.step;
  }
  live.replica.engine().load(state);
}

}  // namespace topknot::train

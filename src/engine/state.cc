// SPDX-License-Identifier: Apache-2.0
#include "engine/state.h"

#include <algorithm>

#include "topknot/error.h"

namespace topknot::engine {
namespace {

std::string key_of(std::string_view tensor, std::string_view part,
                   std::string_view name) {
  return std::string(tensor) + "/" + std::string(part) + "." + std::string(name);
}

// What belongs to the whole bucket is kept with its first tensor.
std::string bucket_key(const Layout& layout, std::string_view part,
                       std::string_view name) {
  return key_of(layout.tensors.empty() ? "" : layout.tensors.front().name, part, name);
}

template <typename T>
const T* find(const State& state, const std::string& key) {
  const auto found = state.values.find(key);
  if (found == state.values.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr)
    throw ConfigError("The state has something of another type at " + key +
                      ": it is of another algorithm or version.");
  return value;
}

template <typename T>
void load(const State& state, const std::string& key, T& value) {
  if (const T* saved = find<T>(state, key)) value = *saved;
}

}  // namespace

void StateSaver::field(std::string_view name, float& value) {
  state_.values[bucket_key(layout_, part_, name)] = value;
}
void StateSaver::field(std::string_view name, double& value) {
  state_.values[bucket_key(layout_, part_, name)] = value;
}
void StateSaver::field(std::string_view name, std::int64_t& value) {
  state_.values[bucket_key(layout_, part_, name)] = value;
}
void StateSaver::field(std::string_view name, std::uint64_t& value) {
  state_.values[bucket_key(layout_, part_, name)] = value;
}
void StateSaver::field(std::string_view name, std::vector<std::uint64_t>& values) {
  state_.values[bucket_key(layout_, part_, name)] = values;
}

void StateSaver::coordinates(std::string_view name, std::span<float> values) {
  for (const TensorSlot& tensor : layout_.tensors) {
    const auto piece = values.subspan(tensor.offset, tensor.size());
    state_.values[key_of(tensor.name, part_, name)] =
        std::vector<float>(piece.begin(), piece.end());
  }
}

void StateSaver::estimates(std::string_view name, std::span<float> values) {
  coordinates(name, values);
  for (const TensorSlot& tensor : layout_.tensors)
    state_.estimates.insert(key_of(tensor.name, part_, name));
}

void StateLoader::field(std::string_view name, float& value) {
  load(state_, bucket_key(layout_, part_, name), value);
}
void StateLoader::field(std::string_view name, double& value) {
  load(state_, bucket_key(layout_, part_, name), value);
}
void StateLoader::field(std::string_view name, std::int64_t& value) {
  load(state_, bucket_key(layout_, part_, name), value);
}
void StateLoader::field(std::string_view name, std::uint64_t& value) {
  load(state_, bucket_key(layout_, part_, name), value);
}
void StateLoader::field(std::string_view name, std::vector<std::uint64_t>& values) {
  load(state_, bucket_key(layout_, part_, name), values);
}

void StateLoader::coordinates(std::string_view name, std::span<float> values) {
  for (const TensorSlot& tensor : layout_.tensors) {
    const auto piece = values.subspan(tensor.offset, tensor.size());
    const std::string key = key_of(tensor.name, part_, name);
    const auto* saved = find<std::vector<float>>(state_, key);
    // States of version 0.1.0 and before call the residual debt.
    if (saved == nullptr && name == "residual")
      saved = find<std::vector<float>>(state_, key_of(tensor.name, part_, "debt"));
    if (saved != nullptr && saved->size() != piece.size())
      throw ConfigError("The state has " + std::to_string(saved->size()) + " values at " +
                        key + " where the model has " + std::to_string(piece.size()) +
                        ".");
    if (saved != nullptr) {
      std::copy(saved->begin(), saved->end(), piece.begin());
    } else {
      std::fill(piece.begin(), piece.end(), 0.0F);
    }
  }
}

}  // namespace topknot::engine

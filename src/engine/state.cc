// SPDX-License-Identifier: Apache-2.0
#include "engine/state.h"

#include <algorithm>
#include <type_traits>

#include "topknot/error.h"

namespace topknot::engine {
namespace {

std::string key_of(std::string_view tensor, std::string_view part,
                   std::string_view name) {
  return std::string(tensor) + "/" + std::string(part) + "." + std::string(name);
}

bool follows_tensors(std::string_view part) {
  return part == "memory" || part == "bucket";
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

}  // namespace

template <typename T>
void StateSaver::save(std::string_view name, const T& value) {
  for (const TensorSlot& tensor : layout_.tensors) {
    if (tensor.name.empty()) continue;
    state_.values[key_of(tensor.name, part_, name)] = value;
    if (!follows_tensors(part_)) return;
  }
}

void StateSaver::field(std::string_view name, float& value) { save(name, value); }
void StateSaver::field(std::string_view name, double& value) { save(name, value); }
void StateSaver::field(std::string_view name, std::int64_t& value) { save(name, value); }
void StateSaver::field(std::string_view name, std::uint64_t& value) { save(name, value); }
void StateSaver::field(std::string_view name, std::vector<std::uint64_t>& values) {
  save(name, values);
}

void StateSaver::coordinates(std::string_view name, std::span<float> values) {
  for (const TensorSlot& tensor : layout_.tensors) {
    if (tensor.name.empty()) continue;
    const auto piece = values.subspan(tensor.offset, tensor.size());
    state_.values[key_of(tensor.name, part_, name)] =
        std::vector<float>(piece.begin(), piece.end());
  }
}

void StateSaver::estimates(std::string_view name, std::span<float> values) {
  coordinates(name, values);
  for (const TensorSlot& tensor : layout_.tensors)
    if (!tensor.name.empty()) state_.estimates.insert(key_of(tensor.name, part_, name));
}

// Tensors of several buckets may have come together: of counts the largest holds for all.
template <typename T>
void StateLoader::load(std::string_view name, T& value) {
  const T* first = nullptr;
  for (const TensorSlot& tensor : layout_.tensors) {
    if (tensor.name.empty()) continue;
    const T* const saved = find<T>(state_, key_of(tensor.name, part_, name));
    if (first == nullptr && saved != nullptr) value = *(first = saved);
    if constexpr (std::is_same_v<T, std::uint64_t>)
      if (saved != nullptr) value = std::max(value, *saved);
    if (!follows_tensors(part_)) return;
  }
}

void StateLoader::field(std::string_view name, float& value) { load(name, value); }
void StateLoader::field(std::string_view name, double& value) { load(name, value); }
void StateLoader::field(std::string_view name, std::int64_t& value) { load(name, value); }
void StateLoader::field(std::string_view name, std::uint64_t& value) {
  load(name, value);
}
void StateLoader::field(std::string_view name, std::vector<std::uint64_t>& values) {
  load(name, values);
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

// SPDX-License-Identifier: Apache-2.0
//
// Saves what an object keeps from step to step into a State, and loads it. Values of
// coordinates are cut up by tensor and kept under the parameter's name, never under a
// bucket's number, for buckets are made anew. A value of a bucket as a whole is kept under the
// name of its first tensor; those of the parts "memory" and "bucket" (Adam's count of steps, the
// last learning rate) under the names of all its tensors, since they belong to the values of these
// wherever they are put. A tensor without a name has no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/layout.h"
#include "topknot/state.h"

namespace topknot::engine {

/// Writes what it visits into `state`. `part` tells the compressor's fields from the memory's.
class StateSaver final : public StateVisitor {
 public:
  StateSaver(State& state, const Layout& layout, std::string_view part)
      : state_(state), layout_(layout), part_(part) {}

  void field(std::string_view name, float& value) override;
  void field(std::string_view name, double& value) override;
  void field(std::string_view name, std::int64_t& value) override;
  void field(std::string_view name, std::uint64_t& value) override;
  void field(std::string_view name, std::vector<std::uint64_t>& values) override;
  void coordinates(std::string_view name, std::span<float> values) override;
  void estimates(std::string_view name, std::span<float> values) override;

 private:
  template <typename T>
  void save(std::string_view name, const T& value);

  State& state_;
  const Layout& layout_;
  const std::string part_;
};

/// Reads what it visits from `state`. Coordinates of a parameter that `state` does not have
/// become zero; a field that it does not have stays as it is. Throws ConfigError, naming the
/// key, where a parameter has another length or a field another type.
class StateLoader final : public StateVisitor {
 public:
  StateLoader(const State& state, const Layout& layout, std::string_view part)
      : state_(state), layout_(layout), part_(part) {}

  void field(std::string_view name, float& value) override;
  void field(std::string_view name, double& value) override;
  void field(std::string_view name, std::int64_t& value) override;
  void field(std::string_view name, std::uint64_t& value) override;
  void field(std::string_view name, std::vector<std::uint64_t>& values) override;
  void coordinates(std::string_view name, std::span<float> values) override;

 private:
  template <typename T>
  void load(std::string_view name, T& value);

  const State& state_;
  const Layout& layout_;
  const std::string part_;
};

}  // namespace topknot::engine

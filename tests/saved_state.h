// SPDX-License-Identifier: Apache-2.0
//
// What an object keeps from step to step, taken from one and given to another.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "topknot/state.h"

namespace topknot::testing {

/// Reads every field of what it visits, or writes it once load() was called.
class SavedState final : public StateVisitor {
 public:
  void field(std::string_view name, float& value) override { visit(name, &value, 1); }
  void field(std::string_view name, double& value) override { visit(name, &value, 1); }
  void field(std::string_view name, std::int64_t& value) override {
    visit(name, &value, 1);
  }
  void field(std::string_view name, std::uint64_t& value) override {
    visit(name, &value, 1);
  }
  void field(std::string_view name, std::vector<std::uint64_t>& values) override {
    if (loading_) values.resize(fields_.at(std::string(name)).size() / sizeof(values[0]));
    visit(name, values.data(), values.size());
  }
  void coordinates(std::string_view name, std::span<float> values) override {
    visit(name, values.data(), values.size());
  }

  void load() { loading_ = true; }

 private:
  template <typename T>
  void visit(std::string_view name, T* values, std::size_t count) {
    std::vector<char>& kept = fields_[std::string(name)];
    if (!loading_) kept.resize(count * sizeof(T));
    if (kept.empty()) return;
    loading_ ? std::memcpy(values, kept.data(), kept.size())
             : std::memcpy(kept.data(), values, kept.size());
  }

  std::map<std::string, std::vector<char>> fields_;
  bool loading_ = false;
};

/// Gives `to` what `from` keeps from step to step.
template <typename T>
void copy_state(T& from, T& to) {
  SavedState state;
  from.visit_state(state);
  state.load();
  to.visit_state(state);
}

}  // namespace topknot::testing

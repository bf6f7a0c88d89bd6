// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace topknot {

/// State outside the objects that keep it: a flat list of named values, as a checkpoint
/// stores it. Keys are "<parameter>/<part>.<field>", as in "conv1.weight/memory.residual".
struct State {
  using Value = std::variant<float, double, std::int64_t, std::uint64_t,
                             std::vector<std::uint64_t>, std::vector<float>>;
  std::map<std::string, Value, std::less<>> values;
  /// Keys of `values` that estimates() visited.
  std::set<std::string, std::less<>> estimates;

  friend bool operator==(const State&, const State&) = default;
};

/// Goes through what an object keeps from step to step. The same walk saves and loads: a
/// visitor that saves reads each field, one that loads writes it, so the two cannot differ.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  virtual void field(std::string_view name, float& value) = 0;
  virtual void field(std::string_view name, double& value) = 0;
  virtual void field(std::string_view name, std::int64_t& value) = 0;
  virtual void field(std::string_view name, std::uint64_t& value) = 0;
  virtual void field(std::string_view name, std::vector<std::uint64_t>& values) = 0;
  /// One value for each coordinate of the bucket: kept by parameter name and offset, so it
  /// survives other buckets.
  virtual void coordinates(std::string_view name, std::span<float> values) = 0;
  /// Likewise, for what a rank estimates of its gradients, such as Adam's moments. When the
  /// number of ranks changes, coordinates are shared out, so that their mean over the ranks
  /// stays; estimates are averaged, so that each rank has one of the same size.
  virtual void estimates(std::string_view name, std::span<float> values) {
    coordinates(name, values);
  }
};

}  // namespace topknot

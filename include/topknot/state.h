// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace topknot {

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
};

}  // namespace topknot

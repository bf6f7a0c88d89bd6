// SPDX-License-Identifier: Apache-2.0
//
// Select and reduce use up the gradient they are given: a test that wants it afterwards, or
// has it as a constant, hands in a copy.
#pragma once

#include <span>
#include <vector>

namespace topknot::testing {

/// A gradient that lives until the call it is handed to is over.
class GradientCopy {
 public:
  explicit GradientCopy(std::span<const float> x) : values_(x.begin(), x.end()) {}
  operator std::span<float>() { return values_; }

 private:
  std::vector<float> values_;
};

/// compressor.select(residual, copy_of(grad), k, out)
inline GradientCopy copy_of(std::span<const float> x) { return GradientCopy(x); }

}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace topknot {

/// One parameter's place in a bucket: its coordinates are [offset, offset + size()).
struct Tensor {
  std::string name;
  std::uint64_t offset = 0;
  std::vector<std::uint64_t> shape;

  std::uint64_t size() const noexcept {
    std::uint64_t product = 1;
    for (const std::uint64_t extent : shape) product *= extent;
    return product;
  }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// The tensors inside a bucket, in the order of their offsets, without gaps.
struct Layout {
  std::vector<Tensor> tensors;

  /// A bucket that is one vector of `n` coordinates.
  static Layout flat(std::uint64_t n) { return {{{"flat", 0, {n}}}}; }
  std::uint64_t size() const noexcept {
    return tensors.empty() ? 0 : tensors.back().offset + tensors.back().size();
  }
  friend bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace topknot

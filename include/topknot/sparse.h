// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topknot {

/// A look at coordinates that someone else owns: value[i] belongs at position index[i].
/// Positions strictly increase.
struct SparseView {
  std::span<const std::uint32_t> index;
  std::span<const float> value;

  std::size_t size() const noexcept { return index.size(); }
  bool empty() const noexcept { return index.empty(); }
  /// The pairs [first, last).
  SparseView slice(std::size_t first, std::size_t last) const {
    return {index.subspan(first, last - first), value.subspan(first, last - first)};
  }
};

/// Some coordinates of a vector: value[i] belongs at position index[i]. Positions
/// strictly increase. A position is 32 bits, so a vector has fewer than 2^32 coordinates;
/// longer ones are cut into buckets.
struct Sparse {
  std::vector<std::uint32_t> index;
  std::vector<float> value;

  std::size_t size() const noexcept { return index.size(); }
  bool empty() const noexcept { return index.empty(); }
  void clear() noexcept {
    index.clear();
    value.clear();
  }
  void reserve(std::size_t pairs) {
    index.reserve(pairs);
    value.reserve(pairs);
  }
  void resize(std::size_t pairs) {
    index.resize(pairs);
    value.resize(pairs);
  }
  void push_back(std::uint32_t position, float v) {
    index.push_back(position);
    value.push_back(v);
  }
  /// Appends pairs whose positions all lie behind ours.
  void append(SparseView pairs) {
    index.insert(index.end(), pairs.index.begin(), pairs.index.end());
    value.insert(value.end(), pairs.value.begin(), pairs.value.end());
  }

  operator SparseView() const noexcept { return {index, value}; }
  friend bool operator==(const Sparse&, const Sparse&) = default;
};

}  // namespace topknot

// SPDX-License-Identifier: Apache-2.0
//
// What each compressor's file promises of its count, for whoever holds it to that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace topknot::testing {

/// How many coordinates a compressor selects at least and at most when k of n are wanted
/// (k is at most n), once it has seen `settles` steps.
struct CountPromise {
  std::string_view name;
  std::size_t (*least)(std::size_t k, std::size_t n);
  std::size_t (*most)(std::size_t k, std::size_t n);
  int settles;
};

inline std::size_t none(std::size_t, std::size_t) { return 0; }
inline std::size_t all(std::size_t, std::size_t n) { return n; }
inline std::size_t exactly(std::size_t k, std::size_t) { return k; }
inline std::size_t half(std::size_t k, std::size_t) { return (k + 1) / 2; }
inline std::size_t twice(std::size_t k, std::size_t n) { return std::min(2 * k, n); }
inline std::size_t four_fifths(std::size_t k, std::size_t) { return (4 * k + 4) / 5; }
inline std::size_t down_to_a_block(std::size_t k, std::size_t) {
  return k == 0 ? 0 : std::max<std::size_t>(k, 256) - 255;
}
inline std::size_t up_to_a_block(std::size_t k, std::size_t n) {
  return std::min(n, (k + 255) / 256 * 256);
}

// One line for each compressor, as its file promises; `settles` is never more than 5.
inline constexpr CountPromise kPromises[] = {
    {"topk", exactly, exactly, 0},    {"threshold", none, all, 0},
    {"randomk", exactly, exactly, 0}, {"blocktopk", down_to_a_block, up_to_a_block, 0},
    {"chunked", exactly, exactly, 0}, {"reuse", half, twice, 0},
    {"dgc", four_fifths, exactly, 0}, {"gaussiank", half, twice, 0},
    {"redsync", exactly, twice, 0},   {"sidco", half, twice, 0},
    {"adtopk", exactly, exactly, 0},  {"adtopk_threshold", half, twice, 0},
};

inline const CountPromise* promise_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPromises), std::end(kPromises),
                                   [&](const CountPromise& p) { return p.name == name; });
  return found == std::end(kPromises) ? nullptr : found;
}

}  // namespace topknot::testing

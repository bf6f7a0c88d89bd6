// SPDX-License-Identifier: Apache-2.0
//
// Contiguous parts of a vector.
#pragma once

#include <cstdint>
#include <span>

#include "core/wire/wire.h"

namespace topknot::collective {

using core::Region;

/// The part of [0, n) that belongs to `part` when it is cut into `parts` nearly equal
/// ones, the longer ones first.
Region equal_region(std::uint64_t n, int parts, int part);

/// The values of `x` in `region`; none where `x` is empty.
template <typename T>
std::span<T> part_of(std::span<T> x, Region region) {
  return x.empty() ? x : x.subspan(region.begin, region.size());
}

}  // namespace topknot::collective

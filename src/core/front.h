// SPDX-License-Identifier: Apache-2.0
//
// Moving what is wanted to the front, without a branch on the data: with the processor's own
// instruction where it has one, else one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "topknot/sparse.h"

namespace topknot::core {

/// Leaves in `pairs`, in order, all whose magnitude_bits() are above `bits`, and of those that
/// equal it the first `ties`.
void keep_above(Sparse& pairs, std::uint32_t bits, std::uint64_t ties);

/// How much more room than it needs copy_between() wants behind `out`.
inline constexpr std::size_t kCopySlack = 16;
/// Copies to `out`, in order, the magnitudes of those values for which magnitude_bits() - begin
/// is less than `width`, which is at most 2^31; returns how many. `out` may be where the values
/// are; else it has room for kCopySlack more than are copied.
std::size_t copy_between(std::span<const float> value, std::uint32_t begin,
                         std::uint32_t width, float* out);

}  // namespace topknot::core

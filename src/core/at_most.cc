// SPDX-License-Identifier: Apache-2.0
#include "core/at_most.h"

#include <algorithm>
#include <bit>

#include "core/select.h"
#include "core/sweep.h"

namespace topknot::core {

bool fold_and_select_at_most(std::span<float> residual, std::span<float> grad,
                             float threshold, std::size_t k, std::size_t most,
                             Sparse& out) {
  // Room to spare, so that cutting back to k is rare enough to cost nothing.
  const std::size_t room = std::max(4 * k, most + 65536);
  bool too_many = false;
  out.clear();
  const bool finite = sweep(
      residual, grad, floor_of(threshold),
      [&](const BlockHits& hits, std::uint32_t floor) {
        out.append(hits.view());
        if (out.size() <= room) return floor;
        too_many = true;
        keep_largest(out, k);
        // What ties with the smallest comes later, so it has lost.
        return k == 0 ? kInfinityBits : magnitude_bits(smallest_magnitude(out.value)) + 1;
      });
  if (!finite) out.clear();
  if (too_many || out.size() > most) keep_largest(out, k);
  return finite;
}

float smallest_magnitude(std::span<const float> values) {
  if (values.empty()) return 0;
  std::uint32_t smallest = kInfinityBits;
  for (const float value : values) smallest = std::min(smallest, magnitude_bits(value));
  return std::bit_cast<float>(smallest);
}

}  // namespace topknot::core

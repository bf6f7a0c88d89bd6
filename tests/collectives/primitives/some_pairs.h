// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/random.h"
#include "topknot/sparse.h"

namespace topknot::collective {

inline constexpr int kRanks[] = {1, 2, 3, 4, 5, 7, 8, 9, 16};

/// What rank `from` has for rank `to`: some pairs of [0, 100), empty now and then.
inline Sparse pairs_of(int from, int to) {
  core::Random random(static_cast<std::uint64_t>(from * 100 + to));
  Sparse pairs;
  const std::uint64_t one_in = random.below(10) + 1;
  for (std::uint32_t i = 0; i < 100; ++i)
    if (random.below(one_in) == 0 && one_in < 9)
      pairs.push_back(i, static_cast<float>(random.below(1000)));
  return pairs;
}

}  // namespace topknot::collective

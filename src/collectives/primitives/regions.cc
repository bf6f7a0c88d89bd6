// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/regions.h"

#include <algorithm>

namespace topknot::collective {

Region equal_region(std::uint64_t n, int parts, int part) {
  const auto p = static_cast<std::uint64_t>(parts);
  const auto i = static_cast<std::uint64_t>(part);
  const std::uint64_t length = n / p;
  const std::uint64_t longer = n % p;
  const std::uint64_t begin = i * length + std::min(i, longer);
  return {begin, begin + length + (i < longer ? 1 : 0)};
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
#include "core/hash.h"

#include <xxhash.h>

namespace topknot::core {

std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace topknot::core {

/// 64-bit XXH3 of `bytes`: for fingerprints and checks against accidents, not attackers.
std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace topknot::core

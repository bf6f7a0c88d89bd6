// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

namespace topknot::core {

/// The fewest digits that read back as x.
inline std::string shortest(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}

/// 16 digits.
inline std::string hexadecimal(std::uint64_t x) {
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; x >>= 4) digits[i] = "0123456789abcdef"[x & 15];
  return digits;
}

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include "topknot/error.h"
#include "topknot/layout.h"

namespace topknot {

void check_length(std::uint64_t coordinates) {
  if (coordinates <= kMostCoordinates) return;
  throw ConfigError("A vector of " + std::to_string(coordinates) +
                    " coordinates is too long for positions of 32 bits; " +
                    "cut it into buckets of at most " + std::to_string(kMostCoordinates) +
                    ".");
}

}  // namespace topknot

// SPDX-License-Identifier: Apache-2.0
#include "data/images.h"

namespace topknot::data {

Images::~Images() = default;

void Images::read_part(std::size_t i, std::span<std::uint8_t> pixels,
                       core::Random& /*random*/) const {
  read(i, pixels);
}

}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/settle.h"

#include <string>

#include "core/merge.h"
#include "core/plant.h"
#include "topknot/error.h"

namespace topknot::collective {

void settle(std::span<const std::uint32_t> index, std::span<const float> error,
            std::span<float> residual) {
  if (error.empty() || TOPKNOT_PLANT(rounding_error_lost))
    return core::erase(index, residual);
  if (error.size() != index.size())
    throw ContractError("There are " + std::to_string(error.size()) +
                        " rounding errors for " + std::to_string(index.size()) +
                        " positions.");
  core::scatter({index, error}, residual);
}

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace topknot::collective {

/// Takes out of the residual what was sent: residual[index[i]] becomes error[i], what rounding
/// took off the value that was sent, or 0 when `error` is empty.
void settle(std::span<const std::uint32_t> index, std::span<const float> error,
            std::span<float> residual);

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace topknot::core {

/// Whether no value of `x` is infinite or NaN.
bool all_finite(std::span<const float> x);

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
//
// A sweep for thresholds that may be wrong.
#pragma once

#include <cstddef>
#include <span>

#include "topknot/sparse.h"

namespace topknot::core {

/// Folds `grad` into `residual` and, in the same sweep, replaces `out` with the coordinates
/// whose magnitude is at least `threshold`: all of them when there are at most `most`,
/// else the `k` largest, ties to the lower index. `k` is at most `most`. However low the
/// threshold, `out` needs room for no more than max(4k, most + 65536) or so. `grad` is used
/// up or empty, and false is returned with `out` empty, as fold() does.
[[nodiscard]] bool fold_and_select_at_most(std::span<float> residual,
                                           std::span<float> grad, float threshold,
                                           std::size_t k, std::size_t most, Sparse& out);

/// The smallest magnitude among `values`, which are finite; 0 when there are none.
float smallest_magnitude(std::span<const float> values);

}  // namespace topknot::core

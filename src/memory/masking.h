// SPDX-License-Identifier: Apache-2.0
//
// When a memory sets a first moment to zero where its residual was settled.
#pragma once

#include <cstddef>

namespace topknot::memory {

/// Whether to mask after a step that settled `settled` of `n` coordinates, for a moment with
/// the factor `beta`.
///
/// A coordinate waits n / settled steps for its turn, and the moment lasts 1 / (1 - beta). Where
/// coordinates wait longer, the moment is of gradients that never saw what has just been
/// applied. Where they do not, it is still good, and without it a large part of every move
/// would be missing: nine tenths of it as `settled` comes to n, with a beta of 0.9.
inline bool masks(std::size_t settled, std::size_t n, double beta) {
  return static_cast<double>(settled) < (1 - beta) * static_cast<double>(n);
}

}  // namespace topknot::memory

// SPDX-License-Identifier: Apache-2.0
//
// What momentum and Adam remember of the direction of their gradients.
//
// A step that is not finite, or whose link fails, must not have moved it, and which it is shows
// only after the exchange, when the gradient is gone. So a step writes the next values beside
// the current ones, and accept() makes them the current ones: another vector, no other pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/merge.h"
#include "core/plant.h"

namespace topknot::memory {

class FirstMoment {
 public:
  explicit FirstMoment(std::size_t size) : now_(size), next_(size) {}

  std::size_t size() const noexcept { return now_.size(); }
  std::span<float> now() noexcept { return now_; }
  /// Of the step under way.
  std::span<float> next() noexcept { return next_; }

  /// The step has gone through.
  void accept() noexcept { now_.swap(next_); }
  /// The last step that was accepted is not applied after all. Nothing has changed the values
  /// before it.
  void undo_step() noexcept {
    if (!TOPKNOT_PLANT(refused_step_moves_momentum)) now_.swap(next_);
  }
  /// Sets it to zero where the residual was settled.
  void mask(std::span<const std::uint32_t> settled) {
    if (!TOPKNOT_PLANT(momentum_not_masked)) core::erase(settled, now_);
  }

  std::uint64_t bytes() const noexcept { return 2 * now_.size() * sizeof(float); }

 private:
  std::vector<float> now_;
  std::vector<float> next_;
};

/// Whether an update memory masks after a step that settled `settled` of `n` coordinates, for
/// a moment with the factor `beta`.
///
/// A coordinate waits n / settled steps for its turn, and the moment lasts 1 / (1 - beta). Where
/// coordinates wait longer, the moment is of gradients that never saw what has just been
/// applied. Where they do not, it is still good, and without it a large part of every move
/// would be missing: nine tenths of it as `settled` comes to n, with a beta of 0.9.
inline bool waits_longer_than_it_lasts(std::size_t settled, std::size_t n, double beta) {
  return static_cast<double>(settled) < (1 - beta) * static_cast<double>(n);
}

}  // namespace topknot::memory

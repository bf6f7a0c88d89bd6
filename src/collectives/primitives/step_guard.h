// SPDX-License-Identifier: Apache-2.0
//
// The gradient's way into the residual, and back out of it when the step is nonfinite.
//
// A step has one shape: select, exchange, then, once it is known to be finite on every rank,
// settle the residual and write the sum. Nothing is taken out of the residual before the
// exchange is through, so a step that fails loses nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/primitives/message_channel.h"
#include "topknot/collective.h"
#include "topknot/compressor.h"
#include "topknot/residual_vector.h"
#include "topknot/sparse.h"

namespace topknot::collective {

/// Adds a step's gradient to the residual, once, and reports on the channel when that is not
/// finite. The channel knows whether the step is finite on every rank; the guard knows how to
/// undo it on this one.
class StepGuard {
 public:
  /// `channel` must outlive it, and counts the steps.
  explicit StepGuard(MessageChannel& channel) : channel_(channel) {}

  MessageChannel& channel() const noexcept { return channel_; }

  /// residual += grad.
  void fold(ResidualVector& residual, std::span<float> grad);
  /// compressor.select(), which is a fold too.
  void select(Compressor& compressor, ResidualVector& residual, std::span<float> grad,
              std::size_t k, Sparse& out);
  /// compressor.select() of `region` alone, with positions in the whole vector; residual +=
  /// grad everywhere else.
  void select_inside(Compressor& compressor, Region region, std::span<float> residual,
                     std::span<float> grad, std::size_t k, Sparse& out);

  /// Ends a nonfinite step: `residual` becomes what it was before the step, bit for bit, out
  /// of what the fold left in `grad`. So nothing may have been written into `sum` yet where
  /// that is the memory of `grad`.
  Reduced undo(ResidualVector& residual, std::span<const float> grad);

 private:
  void note_fold(bool finite);

  MessageChannel& channel_;
  std::uint32_t folded_step_ = 0;  // whose gradient is in the residual; 0 for none
};

}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "topknot/collective.h"
#include "topknot/state.h"

namespace topknot {

/// What the mean that the ranks agree on is.
enum class Units {
  gradients,  ///< a gradient, for an optimizer behind the exchange
  updates,    ///< a change of the weights, to be subtracted from them as it is
};

/// The step that a gradient belongs to.
struct LocalStep {
  double learning_rate = 1;  ///< the one that the step is applied with
  int ranks = 1;             ///< over which the mean is taken
};

/// What a rank remembers of the gradients it has not sent, for one bucket.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Turns the step's gradient, in place, into what joins the residual. Most leave it alone.
  virtual void before(std::span<float> grad, const LocalStep& step) = 0;
  /// The residual, as long as the bucket: handed to Collective::reduce as `residual`. Where it is
  /// elsewhere, a copy of it.
  virtual std::span<float> residual() = 0;
  /// The residual, where it is not in host memory; else null. before() gets no gradient then.
  virtual ResidualVector* elsewhere() { return nullptr; }
  virtual void clear_residual();
  /// Called when the reduce has gone through, with its result. Not called for a nonfinite
  /// step: then what before() did to anything but `grad` and the unit of the residual must
  /// not count.
  virtual void after(const Reduced& reduced) = 0;
  /// The step that after() was called for is not applied after all, on any rank. Undoes, bit
  /// for bit, what before() and after() did to anything but the residual, and what after()
  /// did to the residual.
  virtual void undo_step() {}
  /// Called after undo_step() where there is a residual: the step's mean joins it again. Every
  /// rank does so, and together they have the sum. mean[j] belongs to the coordinate index[j];
  /// where `index` is empty `mean` has all coordinates. A coordinate at which the residual
  /// would not be finite keeps the one it has: an infinite residual would make every later
  /// step nonfinite.
  virtual void undo_sum(std::span<const std::uint32_t> index,
                        std::span<const float> mean);
  /// What it makes of gradients, and so what its residual is in.
  virtual Units units() const noexcept { return Units::gradients; }
  /// Whether it only keeps the residual, so that it has nothing to do where there is none.
  virtual bool only_keeps_residual() const noexcept { return true; }

  /// The bytes it keeps for its coordinates.
  virtual std::uint64_t bytes() const noexcept = 0;

  /// Visits what is kept from step to step: the residual, and whatever else.
  virtual void visit_state(StateVisitor& visitor) = 0;
};

}  // namespace topknot

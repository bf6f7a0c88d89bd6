// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "topknot/collective.h"
#include "topknot/state.h"

namespace topknot {

/// What a rank remembers of the gradients it has not sent, for one bucket.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Turns the step's gradient, in place, into what joins the debt. Most leave it alone.
  /// `learning_rate` is the one that the step's sum will be applied with.
  virtual void before(std::span<float> grad, double learning_rate) = 0;
  /// The debt, as long as the bucket: handed to Collective::reduce as `acc`.
  virtual std::span<float> debt() = 0;
  /// Called when the reduce has gone through, with what came of it. Not called for a step
  /// that was not finite: then what before() did to anything but `grad` must not count.
  virtual void after(const Reduced& reduced) = 0;
  /// Whether it only keeps the debt, so that it has nothing to do where nothing is owed.
  virtual bool only_owes() const noexcept { return true; }

  /// Visits what is kept from step to step: the debt, and whatever else.
  virtual void visit_state(StateVisitor& visitor) = 0;
};

}  // namespace topknot

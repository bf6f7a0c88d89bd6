// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace topknot {

/// What a rank remembers of the gradients it has not sent, for one bucket.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Turns the step's gradient, in place, into what joins the debt. Most leave it alone.
  virtual void before(std::span<float> grad) = 0;
  /// The debt, as long as the bucket: handed to Collective::reduce as `acc`.
  virtual std::span<float> debt() = 0;
  /// Called when the reduce has gone through, with the debt it left behind.
  virtual void after() = 0;
};

}  // namespace topknot

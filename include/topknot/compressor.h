// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "topknot/sparse.h"
#include "topknot/state.h"

namespace topknot {

/// Decides which coordinates of a vector are worth sending. One instance serves one
/// bucket for a whole run, so what is reused from step to step (a threshold, a random
/// state) is a plain member.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// Adds `grad` to `residual` and, in the same sweep, replaces `out` with about `k`
  /// coordinates of the result; how near to `k` is each compressor's own promise. `grad`
  /// may be empty: then nothing is added. Leaves the selected coordinates of `residual` in
  /// place.
  ///
  /// `grad` is used up: on return it holds what `residual` was before the call, bit for bit,
  /// so that copying it back undoes the call.
  ///
  /// Returns false when a sum was nonfinite. Then `out` is empty, `residual` is as before the
  /// call, bit for bit, and the content of `grad` is unspecified.
  [[nodiscard]] virtual bool select(std::span<float> residual, std::span<float> grad,
                                    std::size_t k, Sparse& out) = 0;

  /// The density that the step's `k` was rounded down from. A caller that knows it calls this
  /// before the step. For compressors that share k out, since k / n is not exactly it.
  virtual void expect(std::size_t k, double density) {
    static_cast<void>(k);
    static_cast<void>(density);
  }

  /// Visits what is kept from step to step, if anything.
  virtual void visit_state(StateVisitor& visitor) { static_cast<void>(visitor); }
};

}  // namespace topknot

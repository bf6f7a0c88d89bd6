// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "topknot/residual_vector.h"
#include "topknot/state.h"

namespace topknot {

/// The result of one reduce.
struct Reduced {
  /// How many coordinates `sum` has; n for a dense sum.
  std::size_t count = 0;
  /// False when a gradient, or the sum, was nonfinite: the same on all ranks.
  bool finite = true;
  /// The coordinates of `sum`, each once, in no particular order; valid until the next
  /// reduce. Empty for a dense sum.
  std::span<const std::uint32_t> index;
  /// The coordinates at which this rank's residual was settled, each once; valid as long.
  /// Empty for a dense sum, which settles all of them.
  std::span<const std::uint32_t> settled;
};

/// One phase of a step, as the rank sees it that sends most in it.
struct CostPhase {
  double messages = 0;  ///< sent one after another
  double in_flight =
      1;             ///< so many under way at once; 1: each waits for the one before it
  double bytes = 0;  ///< of each message
};

/// One rank's part in summing a vector over all ranks, sparsely. Made with the channel it
/// talks over and the compressor it selects with; the algorithm decides when to select, and
/// from which part.
class Collective {
 public:
  virtual ~Collective() = default;

  /// The law: nothing is lost. Summed over the ranks, element by element,
  ///
  ///     residual before + grad  ==  agreed sum + residual after
  ///
  /// and `sum` is the same bits on every rank. `grad` joins `residual` in the sweep that
  /// selects; about `k` coordinates are agreed on. Every rank
  /// calls with equal sizes and equal `k`, in the same order. `grad` may be empty:
  /// nothing joins. `sum` is all zeros, or the memory of `grad`, which costs one more
  /// pass to overwrite. `grad` is used up: on return its content is unspecified, unless
  /// `sum` is the same memory.
  ///
  /// When the result is nonfinite, `residual` is as before the call, bit for bit, and `sum` is
  /// not to be used. When a LinkError is thrown, `residual` is residual before + grad: nothing
  /// is lost, and nothing counts as sent.
  virtual Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                         std::span<float> sum) = 0;
  /// The same with a residual in host memory.
  Reduced reduce(std::span<float> residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum);

  /// Whether a step can leave a residual. Where not, `residual` may be empty.
  virtual bool keeps_residual() const noexcept { return true; }
  /// Whether it reads or writes the residual elsewhere than at the positions that some rank
  /// has selected, and so needs all of it in host memory.
  virtual bool needs_host() const noexcept { return false; }

  /// The phases of a typical step on a vector of `n`, of which `k` are wanted: the cost that
  /// stands at the head of the algorithm's file, coded as its messages are. Selections are
  /// taken to be independent. Sends nothing. Empty: not known in closed form.
  virtual std::vector<CostPhase> cost(double n, double k) const {
    static_cast<void>(n);
    static_cast<void>(k);
    return {};
  }

  /// Visits what is kept from step to step, if anything.
  virtual void visit_state(StateVisitor& visitor) { static_cast<void>(visitor); }
};

}  // namespace topknot

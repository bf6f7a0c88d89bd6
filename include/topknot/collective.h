// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace topknot {

/// What came of one reduce.
struct Reduced {
  /// How many coordinates `sum` has; n for a dense sum.
  std::size_t count = 0;
  /// False when some rank's gradient was not finite. All ranks are told on the same step.
  bool finite = true;
};

/// One rank's part in summing a vector over all ranks, sparsely. Made with the channel it
/// talks over and the compressor it selects with; when to select, and from which part, is
/// the algorithm's business.
class Collective {
 public:
  virtual ~Collective() = default;

  /// The law: nothing is lost.
  ///
  ///     sum over ranks of (acc before + grad)  ==  sum + sum over ranks of (acc after)
  ///
  /// element by element, and `sum` is the same bits on every rank. `grad` joins the debt
  /// `acc` in the sweep that selects; about `k` coordinates are agreed on. `grad` may be
  /// empty, and `sum` may be the memory of `grad`. Every rank calls with equal sizes and
  /// equal `k`, in the same order.
  ///
  /// When the result is not finite, `sum` is untouched and `acc` is as before the call
  /// (see Compressor::select). When a LinkError is thrown, `acc` holds acc before + grad:
  /// nothing is lost, nothing was sent.
  virtual Reduced reduce(std::span<float> acc, std::span<const float> grad, std::size_t k,
                         std::span<float> sum) = 0;
};

}  // namespace topknot

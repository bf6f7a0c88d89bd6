// SPDX-License-Identifier: Apache-2.0
//
// Values that this rank is to add to its residual at the end of the step. In collectives that
// merge on the way a rank drops some of what others sent to it. A value that a rank drops
// joins that rank's residual, but not before the exchange is through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "topknot/residual_vector.h"
#include "topknot/sparse.h"

namespace topknot::collective {

class DroppedValues {
 public:
  /// Forgets everything: a new step.
  void clear() noexcept { used_ = 0; }

  /// Leaves in `pairs` its `k` largest, ties to the lower position. What is dropped is
  /// kept here, unless another rank drops the same and is the `keeper`.
  void cut(Sparse& pairs, std::size_t k, bool keeper = true);
  /// Keeps what rounding took off the pairs at `index`; `error` is empty where nothing
  /// was rounded.
  void keep_error(std::span<const std::uint32_t> index, std::span<const float> error);

  /// Forgets what does not lie at one of `positions`, which increase.
  void restrict_to(std::span<const std::uint32_t> positions);
  /// Adds everything kept to the residual. Positions at which something was dropped are taken
  /// off `settled`, which increases.
  void settle(ResidualVector& residual, std::vector<std::uint32_t>& settled);

 private:
  /// What was kept at one go.
  struct Batch {
    Sparse pairs;
    bool dropped = false;  // else an error of rounding
  };
  Batch& next(bool dropped);

  std::vector<Batch>
      batches_;  // the first used_ are in use; the others spare allocations
  std::size_t used_ = 0;
  Sparse before_;
  std::vector<bool> unsettled_;
};

}  // namespace topknot::collective

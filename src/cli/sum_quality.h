// SPDX-License-Identifier: Apache-2.0
//
// How good the sum of a sparse exchange is: how far from the true top-k, and which rows of the
// tensors it leaves alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topknot/layout.h"

namespace topknot::cli {

/// || agreed - top-k(all) || / || top-k(all) || with as many coordinates in the top-k as are not 0 in
/// `agreed`: 0 where the ranks agreed on the true top-k of all that they had. `all` is the mean
/// over the ranks of residual + gradient. 0 for vectors of zeros.
double distance_from_topk(std::span<const float> agreed, std::span<const float> all);

/// Which rows of a layout's tensors were in a sum within a window of steps. A row is what lies
/// behind one value of the first dimension; tensors of one dimension have none.
class TouchedRows {
 public:
  explicit TouchedRows(const Layout& layout);

  /// A step's agreed sum.
  void add(std::span<const float> agreed);
  /// The window ends, and the next begins.
  void end_window();

  struct Share {
    std::string tensor;
    std::uint64_t rows = 0;
    double untouched = 0;  ///< mean over the windows
  };
  /// Of each tensor with rows, after at least one window.
  std::vector<Share> untouched() const;

 private:
  struct Tensor {
    TensorSlot slot;
    std::vector<bool> touched;
    double untouched = 0;  // summed over windows
  };
  std::vector<Tensor> tensors_;
  std::uint64_t windows_ = 0;
};

}  // namespace topknot::cli

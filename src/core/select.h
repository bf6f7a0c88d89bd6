// SPDX-License-Identifier: Apache-2.0
//
// Sweeps over a long vector: fold a gradient into the residual and find what is worth
// sending, reading and writing each coordinate once. All of them give the same bits
// whatever the processor's vector width.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "topknot/sparse.h"

namespace topknot::core {

/// residual[i] += grad[i], while grad[i] becomes what residual[i] was: the gradient is used up,
/// and undo_fold() can undo the fold exactly. Returns false when a sum is nonfinite; then
/// `residual` is as before, bit for bit, and the content of `grad` is unspecified. Both are
/// equally long, or `grad` is empty and nothing is added; they do not overlap.
[[nodiscard]] bool fold(std::span<float> residual, std::span<float> grad);

/// Undoes a fold that went through, bit for bit: `grad` is as the fold left it.
void undo_fold(std::span<float> residual, std::span<const float> grad);

/// Folds and, in the same sweep, replaces `out` with all coordinates whose magnitude is
/// at least `threshold` (not negative; a NaN threshold selects nothing). Returns false as
/// fold() does, with `out` empty.
[[nodiscard]] bool fold_and_select(std::span<float> residual, std::span<float> grad,
                                   float threshold, Sparse& out);

/// How many magnitudes of `x` are at least `threshold`; NaN is not, nor is anything at
/// least NaN.
std::size_t count_at_least(std::span<const float> x, float threshold);

/// Magnitudes by bit pattern: bin b counts the coordinates with (bits(|x|) >> 20) == b,
/// so a bin spans an eighth of an octave. The bins from kNonFiniteBin on count NaN and
/// infinity.
inline constexpr std::size_t kHistogramBins = 2048;
inline constexpr std::size_t kNonFiniteBin = 0x7F8;
using Histogram = std::array<std::uint64_t, kHistogramBins>;
/// Adds the magnitudes of `x` to `bins`.
void add_to_histogram(std::span<const float> x, Histogram& bins);
/// The smallest magnitude that belongs to `bin`.
float histogram_bin_floor(std::size_t bin);

/// Leaves in `pairs` the `k` of largest magnitude, ties to the lower index, in order of
/// index. Does nothing when there are no more than `k`.
void keep_largest(Sparse& pairs, std::size_t k);

/// The exact k largest of a vector that changes little from step to step. One sweep keeps
/// the candidates above a fraction of the last threshold and then chooses among these
/// few; when too few came through, two more read the vector again.
class ExactTopK {
 public:
  /// As Compressor::select; `out` gets exactly min(k, n) coordinates, ties to the lower
  /// index. It needs room for 1.3 k in the long run, for 4 k at first.
  [[nodiscard]] bool select(std::span<float> residual, std::span<float> grad,
                            std::size_t k, Sparse& out);
  /// The smallest magnitude that was selected last; 0 before.
  float threshold() const noexcept { return threshold_; }

 private:
  float threshold_ = 0;
  float margin_ = 0.9F;  // candidates are those of at least margin_ * threshold_
};

}  // namespace topknot::core

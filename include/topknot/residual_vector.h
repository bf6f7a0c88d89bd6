// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "topknot/compressor.h"
#include "topknot/sparse.h"

namespace topknot {

/// A rank's residual wherever it is, in host memory or on a device, and all that a collective
/// does to it: so only what was selected, and what comes back for it, has to move.
///
/// In one step at most one of fold() and select() is called, then gather(), then settle() and
/// add(); at one position settle() comes before add().
class ResidualVector {
 public:
  virtual ~ResidualVector() = default;

  virtual std::size_t size() const noexcept = 0;

  /// The gradient joins the residual. Returns false when a sum was nonfinite; then the
  /// residual is as before, bit for bit. `grad` is as of core::fold(); a vector that is
  /// elsewhere has its gradient there, and gets an empty one.
  [[nodiscard]] virtual bool fold(std::span<float> grad) = 0;
  /// The same, and replaces `out` with about `k` coordinates of the result, in order, which
  /// `compressor` selects, or, elsewhere, what does the same there.
  [[nodiscard]] virtual bool select(Compressor& compressor, std::span<float> grad,
                                    std::size_t k, Sparse& out) = 0;
  /// Undoes a fold that went through, bit for bit; `grad` is as the fold left it.
  virtual void undo_fold(std::span<const float> grad) = 0;

  /// value[i] = residual[index[i]].
  virtual void gather(std::span<const std::uint32_t> index, std::span<float> value) = 0;
  /// Takes out what was sent: residual[index[i]] becomes error[i], what rounding took off the
  /// value that was sent, or 0 when `error` is empty.
  virtual void settle(std::span<const std::uint32_t> index,
                      std::span<const float> error) = 0;
  /// residual[index[i]] += value[i].
  virtual void add(SparseView pairs) = 0;

  /// All of it, for a collective that reads or writes more than it selects. Throws ConfigError
  /// where it is not in host memory.
  virtual std::span<float> host() = 0;
};

}  // namespace topknot

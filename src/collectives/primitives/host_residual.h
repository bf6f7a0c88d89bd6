// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "topknot/residual_vector.h"

namespace topknot::collective {

/// A residual in host memory.
class HostResidual final : public ResidualVector {
 public:
  explicit HostResidual(std::span<float> values) noexcept : values_(values) {}

  std::size_t size() const noexcept override { return values_.size(); }
  bool fold(std::span<float> grad) override;
  bool select(Compressor& compressor, std::span<float> grad, std::size_t k,
              Sparse& out) override;
  void undo_fold(std::span<const float> grad) override;
  void gather(std::span<const std::uint32_t> index, std::span<float> value) override;
  /// Throws ContractError unless there are as many errors as positions, or none.
  void settle(std::span<const std::uint32_t> index,
              std::span<const float> error) override;
  void add(SparseView pairs) override;
  std::span<float> host() override { return values_; }

 private:
  const std::span<float> values_;
};

}  // namespace topknot::collective

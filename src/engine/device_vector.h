// SPDX-License-Identifier: Apache-2.0
//
// A slot's vector on a device, with the memory that it joins.
//
// Only pairs cross the bus: what the device has selected, and for it the mean and what a
// collective puts back into the residual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/recipe.h"
#include "topknot/memory.h"
#include "topknot/residual_vector.h"

namespace topknot::engine {

/// A part of a vector.
struct Piece {
  std::size_t offset;
  std::size_t size;
};

/// Called on the communication thread alone. What returns nothing may only queue its work on
/// the device.
class DeviceVector : public Memory, public ResidualVector {
 public:
  ResidualVector* elsewhere() override { return this; }

  /// Copies these pieces to `to`, one behind another, and leaves zeros in their places.
  virtual void take_out(std::span<const Piece> pieces, std::span<float> to) = 0;
  virtual void put_back(std::span<const Piece> pieces, std::span<const float> from) = 0;
  /// The vector becomes mean[j] at index[j], and zero elsewhere.
  virtual void write(std::span<const std::uint32_t> index,
                     std::span<const float> mean) = 0;
};

/// Why vectors that are exchanged by `options` have to be in host memory: one sentence; empty
/// where they may be on a device.
std::string why_on_the_host(const EngineOptions& options);

}  // namespace topknot::engine

// SPDX-License-Identifier: Apache-2.0
//
// A slot's vector on a device: what a collective does to its residual, handed on to
// topknot/_device_memory.py, which does it there.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/device_vector.h"

namespace topknot::python {

/// The vectors of one slot, one after another. A session's threads share it: start() is for the
/// thread that has the gradient, everything else for the communication thread.
class DeviceVector final : public engine::DeviceVector {
 public:
  /// `memory` is a DeviceMemory. `stand_in`, unless it is None, has events of its own in the place of
  /// the device's: record(tensor), and wait(event). Needs Python's lock.
  DeviceVector(pybind11::object memory, pybind11::object stand_in, const Spec& kind);
  ~DeviceVector() override;
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;

  /// Records an event behind the kernels of `x`, and returns what begin() calls to have this
  /// thread's own stream wait for it. Waits for nothing.
  std::function<void()> start(const at::Tensor& x) const;
  /// `x` is the slot's vector from now on.
  void begin(const at::Tensor& x, const std::function<void()>& behind_its_kernels);
  /// All of the vector becomes NaN.
  void spoil();

  // ---- engine::DeviceVector
  void take_out(std::span<const engine::Piece> pieces, std::span<float> to) override;
  void put_back(std::span<const engine::Piece> pieces,
                std::span<const float> from) override;
  void write(std::span<const std::uint32_t> index, std::span<const float> mean) override;

  // ---- Memory
  void before(std::span<float> grad, const LocalStep& step) override;
  std::span<float> residual() override;
  void clear_residual() override;
  void after(const Reduced& reduced) override;
  void undo_step() override;
  void undo_sum(std::span<const std::uint32_t> index,
                std::span<const float> mean) override;
  bool only_keeps_residual() const noexcept override { return only_keeps_residual_; }
  std::uint64_t bytes() const noexcept override { return bytes_; }
  void visit_state(StateVisitor& visitor) override;

  // ---- ResidualVector
  std::size_t size() const noexcept override { return size_; }
  bool fold(std::span<float> grad) override;
  bool select(Compressor& compressor, std::span<float> grad, std::size_t k,
              Sparse& out) override;
  void undo_fold(std::span<const float> grad) override;
  void gather(std::span<const std::uint32_t> index, std::span<float> value) override;
  void settle(std::span<const std::uint32_t> index,
              std::span<const float> error) override;
  void add(SparseView pairs) override;
  std::span<float> host() override;

 private:
  template <typename... Arguments>
  pybind11::object call(const char* method, Arguments&&... arguments) const;
  void forget_step();
  bool are_selected(std::span<const std::uint32_t> sorted) const;
  at::Tensor bits_of(std::span<const std::uint32_t> sorted) const;
  void send_settled();

  pybind11::object memory_;
  pybind11::object stand_in_;
  std::size_t size_ = 0;
  std::uint64_t bytes_ = 0;
  bool only_keeps_residual_ = true;
  std::vector<float> copy_;  // of residual()

  // Of the step under way. Settling and adding are collected, and sent to the device at once.
  std::vector<std::uint32_t> selected_;
  Sparse settled_;  // in no order; values are errors
  bool has_errors_ = false;
  std::vector<Sparse> added_;
};

/// Makes one for a slot of so many coordinates on a device.
using MakeDeviceVector = std::function<std::shared_ptr<DeviceVector>(
    std::uint64_t size, const Spec& memory, c10::Device device)>;

}  // namespace topknot::python

// SPDX-License-Identifier: Apache-2.0
//
// A tensor of any floating type, on any device, as the f32 vector that is exchanged.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <memory>
#include <span>

namespace topknot::python {

class Staging {
 public:
  /// Starts the copy to host memory, where one is needed. On a device it is queued behind the
  /// gradient's own kernels and goes to pinned memory, so that the thread that runs backward
  /// does not wait for it.
  explicit Staging(at::Tensor x);

  /// The vector, once it has arrived: the tensor's own memory where that is f32 on the host.
  std::span<float> values();
  /// Puts the vector back into the tensor; all NaN where it is not finite.
  void give_back(bool finite);

  const at::Tensor& tensor() const noexcept { return x_; }

 private:
  at::Tensor x_;
  at::Tensor host_;  // of a device's tensor: the copy under way
  std::unique_ptr<c10::Event> arrived_;
  at::Tensor f32_;
};

}  // namespace topknot::python

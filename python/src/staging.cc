// SPDX-License-Identifier: Apache-2.0
#include "staging.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace topknot::python {

Staging::Staging(at::Tensor x) : x_(std::move(x)) {
  if (x_.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(x_.device().type());
  host_ = at::empty(x_.sizes(), at::TensorOptions(x_.scalar_type()).pinned_memory(true));
  host_.copy_(x_, /*non_blocking=*/true);
  arrived_ = std::make_unique<c10::Event>(x_.device().type());
  arrived_->record(guard.getStream(x_.device()));
}

std::span<float> Staging::values() {
  const c10::NoGradGuard no_grad;
  if (arrived_) arrived_->synchronize();
  const bool in_place =
      x_.is_cpu() && x_.scalar_type() == at::kFloat && x_.is_contiguous();
  f32_ = in_place
             ? x_
             : (host_.defined() ? host_ : x_).reshape({-1}).to(at::kFloat).contiguous();
  return {f32_.data_ptr<float>(), static_cast<std::size_t>(f32_.numel())};
}

void Staging::give_back(bool finite) {
  const c10::NoGradGuard no_grad;
  if (!finite) f32_.fill_(std::numeric_limits<float>::quiet_NaN());
  if (!f32_.is_same(x_)) x_.copy_(f32_.reshape(x_.sizes()));
}

}  // namespace topknot::python

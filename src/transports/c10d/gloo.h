// SPDX-License-Identifier: Apache-2.0
//
// The few calls of Gloo that the c10d transport is made of.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace topknot::c10d_link {

using Work = c10::intrusive_ptr<c10d::Work>;

inline at::Tensor tensor_over(const std::byte* bytes, std::size_t size) {
  return at::from_blob(const_cast<std::byte*>(bytes), {static_cast<std::int64_t>(size)},
                       at::kByte);
}

inline Work post_send(c10d::Backend& backend, int peer, std::span<const std::byte> bytes,
                      int tag) {
  std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
  return backend.send(tensors, peer, tag);
}

inline Work post_receive(c10d::Backend& backend, int peer, std::span<std::byte> bytes,
                         int tag) {
  std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
  return backend.recv(tensors, peer, tag);
}

/// Returns whether the work is done: false where wake() ended the wait. Throws where the
/// connection is broken. It has no timeout: one of Gloo's closes every connection.
inline bool wait_for(c10d::Work& work) {
  constexpr std::chrono::milliseconds no_timeout{std::int64_t{1} << 40};
  return work.wait(no_timeout);
}

/// Ends one wait for this work, now or the next, which then returns false even if the work is
/// done. The work itself goes on.
inline void wake(c10d::Work& work) { std::invoke(&c10d::Work::abort, work); }

}  // namespace topknot::c10d_link

// SPDX-License-Identifier: Apache-2.0
//
// Receives the frames of one peer. c10d.cc says how.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <span>

#include "transports/c10d/frame.h"
#include "transports/c10d/gloo.h"

namespace topknot::c10d_link {

/// A few receives are posted at any time. Used by one thread at a time.
class PeerReceiver {
 public:
  /// Throws what Gloo throws.
  PeerReceiver(c10::intrusive_ptr<c10d::Backend> backend, int peer);

  /// The receive of the next frame. Throws what Gloo threw where it could not be posted.
  const Work& next() const;
  /// Whether the next frame lies in memory as a whole. Then wait_for(*next()) returns without
  /// waiting for the peer. A frame whose header was damaged never lies there as a whole.
  bool has_arrived();
  /// Throws what Gloo throws where the connection is broken and no frame is left to be read. Does
  /// not wait.
  void require_connected();
  /// What next() has received.
  std::span<const std::byte> memory() const { return frames_[first_]; }
  /// The next frame has been read: its memory is cleared and posted again, unless the connection
  /// is broken.
  void post_again();

 private:
  static constexpr std::size_t kPosted = 4;

  const c10::intrusive_ptr<c10d::Backend> backend_;
  const int peer_;
  std::size_t first_ = 0;
  std::array<Bytes, kPosted> frames_;
  std::array<Work, kPosted> posted_;
  std::exception_ptr broken_;
};

}  // namespace topknot::c10d_link

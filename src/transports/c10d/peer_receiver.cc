// SPDX-License-Identifier: Apache-2.0
#include "transports/c10d/peer_receiver.h"

#include <algorithm>

namespace topknot::c10d_link {

PeerReceiver::PeerReceiver(c10::intrusive_ptr<c10d::Backend> backend, int peer)
    : backend_(std::move(backend)), peer_(peer) {
  for (std::size_t i = 0; i < kPosted; ++i) {
    frames_[i].resize(kMostFrameBytes);
    posted_[i] = post_receive(*backend_, peer_, frames_[i], kFrameTag);
  }
}

const Work& PeerReceiver::next() const {
  if (!posted_[first_]) std::rethrow_exception(broken_);
  return posted_[first_];
}

bool PeerReceiver::has_arrived() { return frame_has_arrived(frames_[first_]); }

// Gloo looks for a broken connection before it looks for wake().
void PeerReceiver::require_connected() {
  wake(*next());
  wait_for(*next());
}

void PeerReceiver::post_again() {
  Bytes& frame = frames_[first_];
  clear_frame(frame);
  posted_[first_] = {};
  try {
    posted_[first_] = post_receive(*backend_, peer_, frame, kFrameTag);
  } catch (const std::exception&) {
    broken_ = std::current_exception();
  }
  first_ = (first_ + 1) % kPosted;
}

}  // namespace topknot::c10d_link

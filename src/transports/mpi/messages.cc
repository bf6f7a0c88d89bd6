// SPDX-License-Identifier: Apache-2.0
#include "transports/mpi/messages.h"

#include <algorithm>
#include <climits>
#include <new>
#include <utility>

#include "topknot/error.h"
#include "transports/mpi/session.h"

namespace topknot::mpi {
namespace {

// MPI itself copies what is this short, most of the time.
constexpr std::size_t kCopied = 4096;
// The longest piece that is received for its beginning alone.
constexpr std::size_t kMostScratch = std::size_t{64} << 20;

}  // namespace

Messages::Messages(MPI_Comm comm, int id, int ranks, std::uint64_t max_chunk)
    : comm_(comm), id_(id), ranks_(ranks) {
  chunk_[kMessages] = std::clamp<std::uint64_t>(max_chunk, 1, INT_MAX);
  chunk_[kAgreement] = INT_MAX;
  stuck_.resize(static_cast<std::size_t>(ranks) * kQueues);
}

Pending Messages::start_send(int to, std::span<const std::byte> bytes, Queue queue,
                             std::shared_ptr<const std::vector<std::byte>> shared) {
  const std::uint32_t slot = take(to, queue);
  Message& m = *messages_[slot];
  m.into = nullptr;
  m.shared = std::move(shared);
  m.requests.clear();
  m.arrived = 0;
  if (!m.shared && bytes.size() <= kCopied) {
    m.bytes.assign(bytes.begin(), bytes.end());
    bytes = m.bytes;
  }
  std::size_t piece = 0;
  do {
    piece = std::min(bytes.size(), chunk_[queue]);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(bytes.data(), static_cast<int>(piece), MPI_BYTE, to, queue, comm_,
                    &request),
          to);
    m.requests.push_back(request);
    bytes = bytes.subspan(piece);
  } while (piece == chunk_[queue]);
  return pending(slot);
}

Pending Messages::start_recv(int from, std::vector<std::byte>& into, std::size_t limit,
                             Queue queue) {
  const std::uint32_t slot = take(from, queue);
  Message& m = *messages_[slot];
  m.into = &into;
  m.bytes = std::exchange(into, {});
  m.limit = limit;
  m.filled = 0;
  m.overlong = 0;
  receives_.push_back(slot);
  return pending(slot);
}

std::uint32_t Messages::take(int peer, Queue queue) {
  if (peer < 0 || peer >= ranks_) {
    throw ContractError("there is no rank " + std::to_string(peer) + " among the " +
                        std::to_string(ranks_) + " ranks");
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.push_back(std::make_unique<Message>());
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Message& m = *messages_[slot];
  ++m.use;
  m.open = true;
  m.done = false;
  m.peer = peer;
  m.queue = queue;
  return slot;
}

Pending Messages::pending(std::uint32_t slot) const {
  return Pending{std::uint64_t{messages_[slot]->use} << 32 | slot};
}

Message& Messages::find(Pending message) {
  const auto slot = static_cast<std::uint32_t>(message);
  if (slot >= messages_.size() || !messages_[slot]->open || pending(slot) != message) {
    throw ContractError(
        "wait() was called for a message that is not under way: it was never started, "
        "or waited for before");
  }
  return *messages_[slot];
}

bool Messages::look(Message& m) {
  if (m.done) return true;
  if (m.is_send()) progress_send(m);
  if (!m.done) progress_receives();
  return m.done;
}

void Messages::finish(Pending message) {
  Message& m = find(message);
  if (!m.is_send()) *m.into = std::move(m.bytes);
  m.shared.reset();
  m.open = false;
  free_.push_back(static_cast<std::uint32_t>(message));
}

void Messages::progress_send(Message& m) {
  for (; m.arrived < m.requests.size(); ++m.arrived) {
    int completed = 0;
    check(MPI_Test(&m.requests[m.arrived], &completed, MPI_STATUS_IGNORE), m.peer);
    if (!completed) return;
  }
  m.done = true;
}

void Messages::progress_receives() {
  ++round_;
  std::size_t kept = 0;
  for (const std::uint32_t slot : receives_) {
    Message& m = *messages_[slot];
    std::uint64_t& stuck = stuck_[static_cast<std::size_t>(m.peer) * kQueues + m.queue];
    if (stuck != round_ && !m.done) progress_receive(m);
    // The rest of a message that is too long is never received.
    if (m.done && m.overlong == 0) continue;
    stuck = round_;  // later messages of this source must not overtake this one
    receives_[kept++] = slot;
  }
  receives_.resize(kept);
}

void Messages::progress_receive(Message& m) {
  for (;;) {
    if (m.request == MPI_REQUEST_NULL && !probe(m)) return;
    int completed = 0;
    check(MPI_Test(&m.request, &completed, MPI_STATUS_IGNORE), m.peer);
    if (!completed) return;
    if (m.overlong != 0)
      std::copy_n(m.scratch.begin(), m.piece,
                  m.bytes.begin() + static_cast<std::ptrdiff_t>(m.filled));
    m.filled += m.piece;
    if (m.piece < chunk_[m.queue] || m.overlong != 0) break;
  }
  m.scratch = {};
  m.bytes.resize(m.filled);
  m.done = true;
}

// Starts to receive the next piece of `m`, if it has come.
bool Messages::probe(Message& m) {
  int here = 0;
  MPI_Message piece = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(m.peer, m.queue, comm_, &here, &piece, &status), m.peer);
  if (!here) return false;
  int count = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &count), m.peer);
  m.piece = static_cast<std::size_t>(count);
  if (m.piece > m.limit - m.filled) {
    take_overlong(m, piece);
    return true;
  }
  make_room(m);
  check(MPI_Imrecv(m.bytes.data() + m.filled, count, MPI_BYTE, &piece, &m.request),
        m.peer);
  return true;
}

void Messages::take_overlong(Message& m, MPI_Message piece) {
  m.overlong = m.filled + m.piece;
  m.whole = m.piece < chunk_[m.queue];
  const bool far_too_long = m.piece > std::max(kMostScratch, 8 * m.limit);
  m.scratch.resize(far_too_long ? 0 : m.piece);
  m.piece = far_too_long ? 0 : m.limit - m.filled;
  make_room(m);
  if (far_too_long) return;
  check(MPI_Imrecv(m.scratch.data(), static_cast<int>(m.scratch.size()), MPI_BYTE, &piece,
                   &m.request),
        m.peer);
}

// Never shrinks, so that bytes which the vector already has are not cleared again.
void Messages::make_room(Message& m) {
  const std::size_t size = m.filled + m.piece;
  try {
    if (m.bytes.size() < size) m.bytes.resize(size);
  } catch (const std::bad_alloc&) {  // the piece is matched, so it cannot be put back
    throw LinkError(m.peer, "there is no memory for the " + std::to_string(size) +
                                " bytes that rank " + std::to_string(m.peer) +
                                " sent on channel " + std::to_string(id_));
  }
}

bool Messages::is_idle() {
  progress_receives();
  for (const std::unique_ptr<Message>& m : messages_) {
    if (!m->open || m->done) continue;
    if (m->is_send()) progress_send(*m);
    const bool untouched = m->request == MPI_REQUEST_NULL && m->filled == 0;
    if (!m->done && (m->is_send() || !untouched)) return false;
  }
  return true;
}

void Messages::give_up() noexcept {
  for (std::unique_ptr<Message>& m : messages_) {
    bool inside = m->request != MPI_REQUEST_NULL;
    for (MPI_Request& request : m->requests) {
      if (request == MPI_REQUEST_NULL) continue;
      inside = true;
      MPI_Request_free(&request);
    }
    if (inside) Session::keep(std::shared_ptr<Message>(std::move(m)));
  }
  messages_.clear();
  receives_.clear();
  free_.clear();
}

void Messages::check(int code, int peer) const {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw LinkError(peer, "MPI failed on channel " + std::to_string(id_) + " at rank " +
                            std::to_string(peer) + ": " + text);
}

}  // namespace topknot::mpi

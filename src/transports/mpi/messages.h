// SPDX-License-Identifier: Apache-2.0
//
// The messages of one communicator that are under way.
//
// MPI counts in int, so a message travels as a run of pieces. Every piece but the last is
// exactly max_chunk bytes long, and one that is shorter ends the message: no header, and
// a message shorter than max_chunk, which is nearly every one, is a single piece.
//
//   max_chunk = 64      0 bytes: [0]      63: [63]      64: [64][0]      130: [64][64][2]
//
// The receiver learns a piece's length from a matched probe, checks it against the limit, makes
// room and only then receives it. A piece that is too long is received into other memory, because
// Open MPI does not reliably truncate, and all but its first bytes are dropped; one that is far
// too long is not received at all. Nothing blocks: look() polls one message and the oldest receive
// of every source, and MPI makes progress with sends in any of its calls.
//
// While a message is under way, Messages owns its memory: start_recv() takes the vector's storage
// and finish() gives it back; a send shares its bytes with the caller or, if it is short, has a
// copy. Memory of messages still under way at the end is kept until the process ends, because MPI
// cannot cancel them.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topknot/transport.h"

namespace topknot::mpi {

/// A queue is a tag. The agreement of the ranks on a new channel has one of its own, so that a
/// channel can be made while messages of its parent are under way.
enum Queue : int { kMessages = 0, kAgreement = 1, kQueues = 2 };

struct Message {
  std::uint32_t use = 0;  // how often this slot was taken: no Pending is valid twice
  bool open = false;      // started, and not yet waited for
  bool done = false;
  int peer = 0;
  Queue queue = kMessages;

  // A send: requests[0, arrived) have completed.
  std::shared_ptr<const std::vector<std::byte>> shared;
  std::vector<MPI_Request> requests;
  std::size_t arrived = 0;

  // A receive: bytes[0, filled) have come. With a request, the next `piece` are coming.
  std::vector<std::byte>* into = nullptr;  // null for a send
  std::vector<std::byte> bytes;            // of a receive, or a short send's copy
  std::size_t limit = 0;
  std::size_t filled = 0;
  std::size_t piece = 0;
  std::size_t overlong = 0;        // its least length, where that is over the limit
  bool whole = true;               // its length is exactly `overlong`
  std::vector<std::byte> scratch;  // where a piece that is too long is received
  MPI_Request request = MPI_REQUEST_NULL;

  bool is_send() const noexcept { return into == nullptr; }
};

/// Every call but the constructor's is made inside Session::enter(). Throws LinkError where
/// MPI fails.
class Messages {
 public:
  Messages(MPI_Comm comm, int id, int ranks, std::uint64_t max_chunk);

  /// `shared` is null or owns `bytes`.
  Pending start_send(int to, std::span<const std::byte> bytes, Queue queue,
                     std::shared_ptr<const std::vector<std::byte>> shared);
  Pending start_recv(int from, std::vector<std::byte>& into, std::size_t limit,
                     Queue queue);

  /// Throws ContractError where it is not under way.
  Message& find(Pending message);
  /// Whether `m` is done, after a look at it and at everything that is being received.
  bool look(Message& m);
  /// Gives a done message's memory back and its slot to another.
  void finish(Pending message);

  /// Whether nothing is left inside MPI.
  bool is_idle();
  /// Keeps the memory of all messages that are left inside MPI. No other call may follow.
  void give_up() noexcept;

  /// Throws LinkError, which names `peer`, where MPI's `code` is not success.
  void check(int code, int peer) const;
  std::size_t max_chunk() const noexcept { return chunk_[kMessages]; }

 private:
  std::uint32_t take(int peer, Queue queue);
  Pending pending(std::uint32_t slot) const;
  void progress_send(Message& m);
  void progress_receives();
  void progress_receive(Message& m);
  bool probe(Message& m);
  void take_overlong(Message& m, MPI_Message piece);
  void make_room(Message& m);

  MPI_Comm comm_;
  const int id_;
  const int ranks_;
  std::array<std::size_t, kQueues> chunk_;
  std::vector<std::unique_ptr<Message>> messages_;  // a Pending names a slot of these
  std::vector<std::uint32_t> free_;                 // slots for new messages
  std::vector<std::uint32_t> receives_;             // unfinished, in the order they began
  std::vector<std::uint64_t> stuck_;  // by source and queue: the last round without end
  std::uint64_t round_ = 0;           // looks at all receives so far
};

}  // namespace topknot::mpi

// SPDX-License-Identifier: Apache-2.0
//
// mpi: ranks are processes of an MPI job, channels are communicators.
//
// MPI counts in int, so a message travels as a run of pieces. Every piece but the last is
// exactly max_chunk bytes long, and one that is shorter ends the message: no header, and
// a message shorter than max_chunk, which is nearly every one, is a single piece.
//
//   max_chunk = 64      0 bytes: [0]      63: [63]      64: [64][0]      130: [64][64][2]
//
// The receiver learns a piece's length from a matched probe, checks it against the limit,
// makes room and only then receives it. Nothing blocks: wait() looks at its own message
// and at the oldest receive of every source, again and again, until its deadline. MPI
// moves sends along in any of these calls, so two ranks may both wait for a send first.
//
// While a message is under way its memory belongs to this file: recv() takes the vector's
// storage and wait() gives it back. A receive that never ends, on a channel that died,
// leaks that storage, so MPI cannot write into memory that has become something else. A
// send has no such guard: who goes on after a LinkError keeps what was being sent.

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot {
namespace {

/// MPI itself, shared by every channel of the process and ended after the last of them.
class Session {
 public:
  static std::shared_ptr<Session> get() {
    static std::mutex mutex;
    static std::weak_ptr<Session> current;
    const std::scoped_lock lock(mutex);
    std::shared_ptr<Session> session = current.lock();
    if (!session) current = session = std::make_shared<Session>();
    return session;
  }

  Session() {
    int started = 0;
    int ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (ended) {
      throw ConfigError("MPI has already ended in this process and cannot start again.");
    }
    int level = MPI_THREAD_SINGLE;
    if (started) {
      MPI_Query_thread(&level);
    } else {
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
      ours_ = true;
    }
    if (level < MPI_THREAD_SERIALIZED) {
      if (ours_) MPI_Finalize();
      throw ConfigError(
          "MPI must run at MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, but this one "
          "was "
          "started at a lower level: start it with MPI_Init_thread, or leave that to "
          "us.");
    }
    one_at_a_time_ = level < MPI_THREAD_MULTIPLE;
  }

  /// Where a channel died a rank may be gone, and MPI_Finalize would wait for it for
  /// ever. The process then ends without, which tells the launcher to end the job.
  ~Session() {
    if (ours_ && !abandoned_) MPI_Finalize();
  }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Held around calls of MPI; locks nothing where MPI does so itself.
  std::unique_lock<std::mutex> enter() {
    return one_at_a_time_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }

  void abandon() noexcept { abandoned_ = true; }

 private:
  std::mutex mutex_;
  bool ours_ = false;
  bool one_at_a_time_ = false;
  std::atomic<bool> abandoned_ = false;
};

/// What to do between two looks at a message that is not there yet. Ranks may outnumber
/// cores, so the core is offered to others early; and a rank that waits for long should
/// leave it to those that still compute.
class Patience {
 public:
  void pause() {
    ++looks_;
    if (looks_ <= kSpins) return;
    if (looks_ <= kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  static constexpr int kSpins = 20;
  static constexpr int kYields = 2000;
  int looks_ = 0;
};

/// Messages and roll calls are apart, by tag, so that a channel can be made while
/// messages of its parent are under way.
enum Lane : int { kMessages = 0, kRollCall = 1, kLanes = 2 };

struct Message {
  std::uint32_t use = 0;  // how often this slot was taken: no Pending is valid twice
  bool open = false;      // started, and not yet waited for
  bool done = false;
  int peer = 0;
  Lane lane = kMessages;

  // A send: requests[0, arrived) have completed.
  std::vector<MPI_Request> requests;
  std::size_t arrived = 0;

  // A receive: bytes[0, filled) have come. With a request, the next `piece` are coming.
  std::vector<std::byte>* into = nullptr;  // null for a send
  std::vector<std::byte> bytes;
  std::size_t limit = 0;
  std::size_t filled = 0;
  std::size_t piece = 0;
  MPI_Request request = MPI_REQUEST_NULL;
};

class Mpi final : public Transport {
 public:
  /// Takes over `comm`.
  Mpi(std::shared_ptr<Session> session, MPI_Comm comm, int id, const LinkOptions& options,
      std::shared_ptr<const std::vector<int>> hosts)
      : session_(std::move(session)),
        comm_(comm),
        id_(id),
        options_(options),
        hosts_(std::move(hosts)) {
    const auto guard = session_->enter();
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    chunk_[kMessages] = std::clamp<std::uint64_t>(options.max_chunk, 1, INT_MAX);
    chunk_[kRollCall] = INT_MAX;
    stuck_.resize(static_cast<std::size_t>(size_) * kLanes);
  }

  ~Mpi() override {
    const auto guard = session_->enter();
    if (quiet()) {
      MPI_Comm_free(&comm_);
      return;
    }
    session_->abandon();
    for (std::unique_ptr<Message>& m : messages_) {
      for (MPI_Request& request : m->requests) {
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
      }
      if (m->request != MPI_REQUEST_NULL) static_cast<void>(m.release());
    }
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  Pending send(int to, std::span<const std::byte> bytes) override {
    return start_send(to, bytes, kMessages);
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return start_recv(from, into, limit, kMessages);
  }

  void wait(Pending message) override {
    if (failure_) throw *failure_;
    Message& m = find(message);
    const double deadline = now() + options_.timeout;
    // This process itself may have been stopped, so there is one more look after the end.
    bool late = false;
    for (Patience patience; !look(m); patience.pause()) {
      if (late) expire(m);
      late = now() > deadline;
    }
    if (m.into != nullptr) *m.into = std::move(m.bytes);
    m.open = false;
    free_.push_back(static_cast<std::uint32_t>(message));
  }

  /// The one call without a deadline. MPI_Iallreduce could be polled, but in Open MPI it
  /// is another algorithm, up to twice as slow, and this is here to be compared with.
  /// Below MPI_THREAD_MULTIPLE other channels of the process stand still meanwhile.
  bool allreduce(std::span<float> x) override {
    if (failure_) throw *failure_;
    const auto guard = session_->enter();
    const std::size_t most = std::max<std::size_t>(1, chunk_[kMessages] / sizeof(float));
    while (!x.empty()) {
      const std::size_t n = std::min(x.size(), most);
      check(MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM,
                          comm_),
            rank_);
      x = x.subspan(n);
    }
    return true;
  }

  double now() const noexcept override {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(time).count();
  }

  int node_of(int rank) const noexcept override {
    return (*hosts_)[static_cast<std::size_t>(rank)];
  }

  std::unique_ptr<Transport> channel(int id) override {
    agree("channel", static_cast<std::uint64_t>(id));
    // All ranks are here now, so this will not wait for one that never comes.
    MPI_Comm comm = MPI_COMM_NULL;
    {
      const auto guard = session_->enter();
      check(MPI_Comm_dup(comm_, &comm), rank_);
    }
    return std::make_unique<Mpi>(session_, comm, id, options_, hosts_);
  }

  /// Returns once every rank has called this with the same `mine`. Rank by rank, so that
  /// the one which does not come can be named.
  void agree(const char* field, std::uint64_t mine) {
    std::vector<std::byte> said(sizeof mine);
    std::memcpy(said.data(), &mine, sizeof mine);
    std::vector<std::vector<std::byte>> heard(static_cast<std::size_t>(size_));
    std::vector<Pending> sends;
    std::vector<Pending> receives;
    for (int peer = 0; peer < size_; ++peer) {
      receives.push_back(start_recv(peer, heard[peer], sizeof mine, kRollCall));
      sends.push_back(start_send(peer, said, kRollCall));
    }
    for (const Pending message : receives) wait(message);
    for (const Pending message : sends) wait(message);
    for (int peer = 0; peer < size_; ++peer) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, heard[peer].data(),
                  std::min(heard[peer].size(), sizeof theirs));
      if (theirs == mine) continue;
      throw fail<DisagreementError>(
          peer, std::string(field) + " is " + std::to_string(mine) + " on rank " +
                    std::to_string(rank_) + " but " + std::to_string(theirs) +
                    " on rank " + std::to_string(peer));
    }
  }

 private:
  Pending start_send(int to, std::span<const std::byte> bytes, Lane lane) {
    const std::uint32_t slot = take(to, lane);
    Message& m = *messages_[slot];
    m.into = nullptr;
    m.requests.clear();
    m.arrived = 0;
    const auto guard = session_->enter();
    std::size_t piece = 0;
    do {
      piece = std::min(bytes.size(), chunk_[lane]);
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(bytes.data(), static_cast<int>(piece), MPI_BYTE, to, lane, comm_,
                      &request),
            to);
      m.requests.push_back(request);
      bytes = bytes.subspan(piece);
    } while (piece == chunk_[lane]);
    return pending(slot);
  }

  Pending start_recv(int from, std::vector<std::byte>& into, std::size_t limit,
                     Lane lane) {
    const std::uint32_t slot = take(from, lane);
    Message& m = *messages_[slot];
    m.into = &into;
    m.bytes = std::exchange(into, {});
    m.limit = limit;
    m.filled = 0;
    receives_.push_back(slot);
    return pending(slot);
  }

  // A slot for a new message.
  std::uint32_t take(int peer, Lane lane) {
    if (failure_) throw *failure_;
    if (peer < 0 || peer >= size_) {
      throw ContractError("there is no rank " + std::to_string(peer) + " among the " +
                          std::to_string(size_) + " ranks");
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
    m.lane = lane;
    return slot;
  }

  Pending pending(std::uint32_t slot) const {
    return Pending{std::uint64_t{messages_[slot]->use} << 32 | slot};
  }

  Message& find(Pending message) {
    const auto slot = static_cast<std::uint32_t>(message);
    if (slot >= messages_.size() || !messages_[slot]->open || pending(slot) != message) {
      throw ContractError(
          "a message was waited for that is not under way: never started, "
          "or waited for before");
    }
    return *messages_[slot];
  }

  // Whether `m` is done, after a look at it and at everything that is being received.
  bool look(Message& m) {
    if (m.done) return true;
    const auto guard = session_->enter();
    if (m.into == nullptr) progress_send(m);
    if (!m.done) progress_receives();
    return m.done;
  }

  void progress_send(Message& m) {
    for (; m.arrived < m.requests.size(); ++m.arrived) {
      int completed = 0;
      check(MPI_Test(&m.requests[m.arrived], &completed, MPI_STATUS_IGNORE), m.peer);
      if (!completed) return;
    }
    m.done = true;
  }

  void progress_receives() {
    ++round_;
    std::size_t kept = 0;
    for (const std::uint32_t slot : receives_) {
      Message& m = *messages_[slot];
      std::uint64_t& stuck = stuck_[static_cast<std::size_t>(m.peer) * kLanes + m.lane];
      if (stuck != round_) progress_receive(m);
      if (m.done) continue;
      stuck = round_;  // later messages of this source must not overtake this one
      receives_[kept++] = slot;
    }
    receives_.resize(kept);
  }

  void progress_receive(Message& m) {
    for (;;) {
      if (m.request == MPI_REQUEST_NULL && !probe(m)) return;
      int completed = 0;
      check(MPI_Test(&m.request, &completed, MPI_STATUS_IGNORE), m.peer);
      if (!completed) return;
      m.filled += m.piece;
      if (m.piece < chunk_[m.lane]) break;
    }
    m.bytes.resize(m.filled);
    m.done = true;
  }

  // Starts to receive the next piece of `m`, if it has come.
  bool probe(Message& m) {
    int here = 0;
    MPI_Message piece = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(m.peer, m.lane, comm_, &here, &piece, &status), m.peer);
    if (!here) return false;
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count), m.peer);
    m.piece = static_cast<std::size_t>(count);
    if (m.piece > m.limit - m.filled) {
      throw fail<LinkError>(
          m.peer, "rank " + std::to_string(m.peer) + " sent a message of " +
                      (m.piece < chunk_[m.lane] ? "" : "at least ") +
                      std::to_string(m.filled + m.piece) + " bytes on channel " +
                      std::to_string(id_) + ", where at most " + std::to_string(m.limit) +
                      " were expected");
    }
    make_room(m);
    check(MPI_Imrecv(m.bytes.data() + m.filled, count, MPI_BYTE, &piece, &m.request),
          m.peer);
    return true;
  }

  // Never shrinks: what the caller's vector held before need not be cleared again.
  void make_room(Message& m) {
    const std::size_t size = m.filled + m.piece;
    try {
      if (m.bytes.size() < size) m.bytes.resize(size);
    } catch (const std::bad_alloc&) {  // the piece is matched, so it cannot be put back
      throw fail<LinkError>(m.peer, "there is no memory for the " + std::to_string(size) +
                                        " bytes that rank " + std::to_string(m.peer) +
                                        " sent on channel " + std::to_string(id_));
    }
  }

  // Whether nothing of this channel is left inside MPI.
  bool quiet() noexcept {
    try {
      if (failure_) return false;
      progress_receives();
      for (const std::unique_ptr<Message>& m : messages_) {
        if (!m->open || m->done) continue;
        if (m->into == nullptr) progress_send(*m);
        const bool untouched = m->request == MPI_REQUEST_NULL && m->filled == 0;
        if (!m->done && (m->into == nullptr || !untouched)) return false;
      }
      return true;
    } catch (...) {
      return false;
    }
  }

  [[noreturn]] void expire(const Message& m) {
    char timeout[32];
    std::snprintf(timeout, sizeof timeout, "%g", options_.timeout);
    const std::string on = " it on channel " + std::to_string(id_);
    const std::string doing = m.into == nullptr
                                  ? "waiting to send to" + on
                                  : "waiting to receive from" + on + "; " +
                                        std::to_string(m.filled) + " bytes have come";
    throw fail<LinkError>(m.peer, "rank " + std::to_string(m.peer) +
                                      " has been silent for " + timeout + " s (" + doing +
                                      ")");
  }

  void check(int code, int peer) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw fail<LinkError>(peer, "MPI failed on channel " + std::to_string(id_) +
                                    " at rank " + std::to_string(peer) + ": " + text);
  }

  // The error to throw; the channel is dead from here on.
  template <typename E>
  E fail(int peer, const std::string& sentence) {
    session_->abandon();
    failure_.emplace(peer, sentence);
    return E(peer, sentence);
  }

  std::shared_ptr<Session> session_;
  MPI_Comm comm_;
  int id_;
  LinkOptions options_;
  std::shared_ptr<const std::vector<int>> hosts_;  // by rank: the first rank on its host
  int rank_ = 0;
  int size_ = 0;
  std::array<std::size_t, kLanes> chunk_;
  std::optional<LinkError> failure_;

  std::vector<std::unique_ptr<Message>> messages_;  // a Pending names a slot of these
  std::vector<std::uint32_t> free_;                 // slots for new messages
  std::vector<std::uint32_t> receives_;             // unfinished, in the order they began
  std::vector<std::uint64_t> stuck_;  // by source and lane: the last round without end
  std::uint64_t round_ = 0;           // looks at all receives so far
};

// By rank: the lowest rank that it shares memory with.
std::vector<int> find_hosts(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
  int first = rank;
  MPI_Bcast(&first, 1, MPI_INT, 0, host);
  MPI_Comm_free(&host);
  std::vector<int> hosts(static_cast<std::size_t>(size));
  MPI_Allgather(&first, 1, MPI_INT, hosts.data(), 1, MPI_INT, comm);
  return hosts;
}

}  // namespace

std::unique_ptr<Transport> make_mpi(const LinkOptions& options) {
  if (!(options.timeout > 0)) {
    throw ConfigError("the timeout must be more than 0 seconds, not " +
                      std::to_string(options.timeout));
  }
  std::shared_ptr<Session> session = Session::get();
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> hosts;
  {
    // Has no deadline, as MPI_Init has none; errors end the job, as MPI's own rule is.
    const auto guard = session->enter();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    hosts = find_hosts(comm);
  }
  auto link =
      std::make_unique<Mpi>(std::move(session), comm, 0, options,
                            std::make_shared<const std::vector<int>>(std::move(hosts)));
  link->agree("max_chunk", options.max_chunk);
  return link;
}

}  // namespace topknot

// SPDX-License-Identifier: Apache-2.0
//
// The endpoint of a c10d transport: a Gloo group, what receives the frames of each peer, and the
// queues of all channels, in which frames and receives are matched. c10d.cc has the protocol.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "topknot/transports.h"
#include "transports/c10d/frame.h"
#include "transports/c10d/gloo.h"
#include "transports/c10d/peer_receiver.h"
#include "transports/failure_agreement.h"

namespace topknot::c10d_link {

using transports::Failure;
using transports::FailureAgreement;
using Clock = FailureAgreement::Clock;

/// A message or the receive of one, as this rank sees it.
struct Operation {
  int peer = 0;
  bool is_send = false;
  std::shared_ptr<const Bytes> shared;  ///< of a send: owns the bytes of the rest
  Bytes bytes;                          ///< the frame of a send, or the bytes received
  std::vector<std::byte>* into = nullptr;
  std::size_t limit = 0;
  std::size_t too_long = 0;  ///< the message's length where that is over the limit
  bool matched = false;      ///< a receive has its frame
  Work frame;                ///< of a send
  Work rest;
};

/// The message of a library's exception without source location and call stack.
std::string reason_of(const std::exception& error);

/// Used by any number of channels and threads. A failure throws LinkError, and from then on every
/// wait of every channel throws it. It has one thread, whatever the number of ranks: that reads
/// what nobody waits for and keeps the deadlines.
class Endpoint {
 public:
  Endpoint(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<int> hosts,
           const LinkOptions& options);
  /// Ends the thread, and keeps the memory that Gloo may still use.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  FailureAgreement& agreement() noexcept { return agreement_; }
  const std::vector<int>& hosts() const noexcept { return hosts_; }
  c10d::Backend& backend() noexcept { return *backend_; }

  /// Sends.
  void start(std::uint64_t channel, Operation& operation,
             std::span<const std::byte> bytes);
  /// Receives: the operation gets the channel's next frame of its peer, now or when it comes.
  void want(std::uint64_t channel, const std::shared_ptr<Operation>& operation);

  /// Returns when the operation has its frame; its rest, if any, is then being received.
  void await_frame(const Operation& operation, std::optional<double> limit = {});
  /// Waits until Gloo has completed `work`. While it waits, this rank waits for `whom`. Where the
  /// connection breaks, `peer` is the rank that is lost.
  void await(const Work& work, int peer, int whom, std::optional<double> limit = {});

  /// The owner of these operations is about to be destroyed: nothing is received into them or
  /// sent from them any more.
  void withdraw(std::uint64_t channel,
                const std::vector<std::shared_ptr<Operation>>& operations);

  /// Throws the failure of the job, if there is one.
  void require_not_failed() const {
    if (agreement_.failed()) agreement_.failure().raise();
  }

  /// Runs `call`, which calls Gloo. What that throws becomes a LinkError that names `peer`.
  template <typename Call>
  void guarded(int peer, Call call) {
    try {
      call();
    } catch (const std::exception& error) {
      throw_lost(peer, lost_sentence(peer, reason_of(error)));
    }
  }

 private:
  /// A peer that is so many frames ahead of this rank is not one of ours.
  static constexpr std::size_t kMostFramesQueued = 4096;

  struct Peer {
    std::unique_ptr<PeerReceiver> receiver;  // none for this rank itself
    bool is_read = false;                    // a thread waits for its next frame
    bool closed_in_order = false;
    std::size_t queued = 0;           // frames that have no receive yet, in all channels
    std::optional<std::string> lost;  // how its connection broke
  };
  /// What is to be done about a frame when the mutex is free.
  struct Consequence {
    Bytes control = {};
    std::optional<Failure> failure = std::nullopt;
  };
  /// The messages of one sender over one channel: frames that have no receive yet, or receives
  /// that have no frame yet.
  struct Queue {
    std::deque<std::pair<Header, Bytes>> arrived;
    std::deque<std::shared_ptr<Operation>> wanted;
  };
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static std::string lost_sentence(int peer, const std::string& why);

  using Lock = std::unique_lock<std::mutex>;

  void poll();
  void keep_memory_for_gloo();
  void post_control(int peer, const Bytes& message);
  void wake_all();
  [[noreturn]] void throw_lost(int peer, const std::string& sentence);

  // With the mutex held, which these free while they wait or call the agreement:
  void wait_for_frame(Lock& lock, int peer);
  bool read_what_has_arrived(Lock& lock, int peer);
  void receive(Lock& lock, int peer);

  // With the mutex held:
  Consequence read(int peer, std::span<const std::byte> memory);
  void take(int peer, const Header& header, std::span<const std::byte> bytes);
  void match(Operation& operation, const Header& header,
             std::span<const std::byte> bytes);
  void post(int peer, const Header& header, std::span<const std::byte> bytes);
  void find_broken_connections();
  void lose(int peer, const std::exception_ptr& broken);

  const std::vector<int> hosts_;
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const int rank_;
  const int size_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable closed_;
  bool closing_ = false;
  std::vector<Peer> peers_;
  std::optional<int> first_lost_;
  std::map<std::pair<std::uint64_t, int>, Queue> queues_;
  std::vector<std::uint32_t> next_tag_;  // by rank of the receiver
  std::set<c10d::Work*> waited_for_;
  std::deque<std::pair<Bytes, Work>> posted_;  // control and closing messages, withdrawn
  FailureAgreement agreement_;
  std::thread poller_;
};

}  // namespace topknot::c10d_link

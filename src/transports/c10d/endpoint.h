// SPDX-License-Identifier: Apache-2.0
//
// The endpoint of a c10d transport: a Gloo group, a listener for each peer, and the queues of all
// channels, through which frames and receives find each other. c10d.cc tells how.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "topknot/transports.h"
#include "transports/failure_agreement.h"

namespace topknot::c10d_link {

using Bytes = std::vector<std::byte>;
using transports::Failure;
using transports::FailureAgreement;
using Clock = FailureAgreement::Clock;
using Work = c10::intrusive_ptr<c10d::Work>;

/// What opens a frame.
struct Header {
  enum class Kind : std::uint32_t { data, control, goodbye };
  std::uint64_t channel = 0;
  std::uint64_t length = 0;  ///< of the whole message
  Kind kind = Kind::data;
  std::uint32_t rest_tag = 0;  ///< 0: there is no rest
  std::uint64_t reserved = 0;
};
static_assert(sizeof(Header) == 32);

/// A message or the receive of one, as this rank sees it.
struct Operation {
  int peer = 0;
  bool is_send = false;
  std::shared_ptr<const Bytes> shared;  ///< of a send: what the rest is a part of
  Bytes bytes;                          ///< a send's frame, or what was received
  std::vector<std::byte>* into = nullptr;
  std::size_t limit = 0;
  std::size_t too_long = 0;  ///< the length that broke the limit, if one did
  bool matched = false;      ///< a receive has met its frame
  Work frame;                ///< of a send
  Work rest;
};

/// What a library's exception says, without its place in the sources and its call stack.
std::string reason_of(const std::exception& error);

/// Used by any number of channels and threads. What fails throws LinkError, and from then on
/// every wait of every channel does. A thread of its own keeps the deadlines, for a wait of
/// Gloo's can be ended by another thread but not by the clock without harm.
class Endpoint {
 public:
  Endpoint(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<int> hosts,
           const LinkOptions& options);
  /// No listener may be left in a wait, nor Gloo with memory that is about to go.
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
  /// Receives: gives the operation the channel's next frame of its peer, now or when it comes.
  void want(std::uint64_t channel, const std::shared_ptr<Operation>& operation);

  /// Returns when the operation's frame is here, and what is known of its rest.
  void await_frame(const Operation& operation);
  /// Waits until Gloo has done with `work`, for which this rank waits for `whom`. Where the
  /// connection breaks, `peer` is the rank that has gone.
  void await(const Work& work, int peer, int whom);

  /// The owner of these operations goes away: no peer's bytes may come into them any more, and
  /// none may be taken from them.
  void withdraw(std::uint64_t channel,
                const std::vector<std::shared_ptr<Operation>>& operations);

  /// Throws what has ended the job, if anything has.
  void require_alive() const {
    if (agreement_.failed()) agreement_.failure().raise();
  }

  /// Throws what `call` of Gloo's throws as the loss of `peer`.
  template <typename Call>
  void guarded(int peer, Call call) {
    try {
      call();
    } catch (const std::exception& error) {
      lose(peer, parting_of(peer, reason_of(error)));
    }
  }

 private:
  static constexpr std::size_t kFramesOnOffer = 4;

  /// Where one peer's frames come in.
  struct PeerReceiver {
    std::thread listener;
    bool said_goodbye = false;
    std::array<Bytes, kFramesOnOffer> frames;
    std::array<Work, kFramesOnOffer> offers;
  };
  /// What one rank sends us over one channel: frames that nobody has asked for yet, or
  /// receives that have no frame yet.
  struct Queue {
    std::deque<std::pair<Header, Bytes>> arrived;
    std::deque<std::shared_ptr<Operation>> wanted;
  };
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static std::string parting_of(int peer, const std::string& why);

  Work post_send(int peer, std::span<const std::byte> bytes, int tag);
  Work post_receive(int peer, std::span<std::byte> bytes, int tag);
  void offer_frames(int peer);
  void listen(int peer);
  void keep_deadlines();
  void leave_to_gloo();
  void post_control(int peer, const Bytes& message);
  void wake_all();
  [[noreturn]] void lose(int peer, const std::string& sentence);

  // With the mutex held:
  void read(int peer, const Header& header, const Bytes& frame);
  void take(int peer, const Header& header, std::span<const std::byte> bytes);
  void hand_over(Operation& operation, const Header& header,
                 std::span<const std::byte> bytes);
  void post(int peer, const Header& header, std::span<const std::byte> bytes);

  const std::vector<int> hosts_;
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const int rank_;
  const int size_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::vector<std::optional<std::string>> gone_;  // by rank: how its connection broke
  std::optional<int> first_gone_;
  std::map<std::pair<std::uint64_t, int>, Queue> queues_;
  std::vector<std::uint32_t> next_tag_;  // by rank of the receiver
  std::set<c10d::Work*> waited_for_;
  std::deque<std::pair<Bytes, Work>> posted_;  // control messages, farewells, withdrawn
  std::vector<PeerReceiver> receivers_;
  FailureAgreement agreement_;
  std::thread deadlines_;
};

}  // namespace topknot::c10d_link

// SPDX-License-Identifier: Apache-2.0
//
// The office of a c10d transport: a Gloo group, a listener for each peer, and the lanes of all
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

#include "transports/c10d.h"

namespace topknot::c10d_link {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;
using Work = c10::intrusive_ptr<c10d::Work>;

/// What opens a frame.
struct Header {
  enum class Kind : std::uint32_t { data, suspicion, obituary, goodbye };
  std::uint64_t channel = 0;
  std::uint64_t length = 0;  ///< of the whole message
  Kind kind = Kind::data;
  std::uint32_t rest_tag = 0;  ///< 0: there is no rest
  std::int32_t lost = -1;      ///< of a suspicion or an obituary: whose
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Header) == 32);

/// A message or the receive of one, as this rank sees it.
struct Letter {
  int peer = 0;
  bool is_send = false;
  Bytes bytes;  ///< a send's frame, or what was received
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
/// every wait of every channel does.
class Office {
 public:
  Office(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<int> hosts,
         const LinkOptions& options);
  /// No listener may be left in a wait, nor Gloo with memory that is about to go.
  ~Office();
  Office(const Office&) = delete;
  Office& operator=(const Office&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  double timeout() const noexcept { return timeout_; }
  const std::vector<int>& hosts() const noexcept { return hosts_; }
  c10d::Backend& backend() noexcept { return *backend_; }

  /// Sends.
  void start(std::uint64_t channel, Letter& letter, std::span<const std::byte> bytes);
  /// Receives: gives the letter the channel's next frame of its peer, now or when it comes.
  void want(std::uint64_t channel, const std::shared_ptr<Letter>& letter);

  /// Returns when the letter's frame is here, and what is known of its rest.
  void await_frame(const Letter& letter, Clock::time_point deadline);
  /// Waits until Gloo has done with `work`, which has to do with `peer`.
  void await(const Work& work, int peer, Clock::time_point deadline);

  /// The owner of these letters goes away: no peer's bytes may come into them any more.
  void withdraw(std::uint64_t channel,
                const std::vector<std::shared_ptr<Letter>>& letters);

  [[noreturn]] void fail(int peer, const std::string& sentence);

  /// Throws what `call` of Gloo's throws as the loss of `peer`.
  template <typename Call>
  void guarded(int peer, Call call) {
    try {
      call();
    } catch (const std::exception& error) {
      fail(peer, parting_of(peer, reason_of(error)));
    }
  }

 private:
  static constexpr std::size_t kFramesOnOffer = 4;

  /// Where one peer's frames come in.
  struct Desk {
    std::thread listener;
    bool said_goodbye = false;
    std::array<Bytes, kFramesOnOffer> frames;
    std::array<Work, kFramesOnOffer> offers;
  };
  /// What one rank sends us over one channel: frames that nobody has asked for yet, or
  /// receives that have no frame yet.
  struct Lane {
    std::deque<std::pair<Header, Bytes>> arrived;
    std::deque<std::shared_ptr<Letter>> wanted;
  };
  struct Loss {
    int peer;
    std::string sentence;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static std::string parting_of(int peer, const std::string& why);
  std::string silence_of(int peer) const;

  Work post_send(int peer, std::span<const std::byte> bytes, int tag);
  Work post_receive(int peer, std::span<std::byte> bytes, int tag);
  void offer_frames(int peer);
  void listen(int peer);

  // With the mutex held:
  void read(int peer, const Bytes& frame);
  void take(int peer, const Header& header, std::span<const std::byte> bytes);
  void hand_over(Letter& letter, const Header& header, std::span<const std::byte> bytes);
  int behind(int peer) const;
  void condemn(int peer, std::string sentence, bool tell = true);
  void tell_all(const Header& news);
  [[noreturn]] void give_up(std::unique_lock<std::mutex>&, int peer);

  const double timeout_;
  const std::vector<int> hosts_;
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const int rank_;
  const int size_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::optional<Loss> lost_;                      // why every wait fails
  std::vector<std::optional<std::string>> gone_;  // by rank: how its connection broke
  std::optional<int> first_gone_;
  std::vector<int> suspects_;  // by rank: whom it misses, or -1
  std::map<std::pair<std::uint64_t, int>, Lane> lanes_;
  std::vector<std::uint32_t> next_tag_;  // by rank of the receiver
  std::set<c10d::Work*> waited_for_;
  std::deque<std::pair<Bytes, Work>> farewells_;
  std::vector<Desk> desks_;
};

}  // namespace topknot::c10d_link

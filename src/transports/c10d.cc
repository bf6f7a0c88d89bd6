// SPDX-License-Identifier: Apache-2.0
//
// c10d: ranks are the processes of a torch job, joined by a Gloo group of our own.
//
// Gloo receives into memory of a size that must be known beforehand: what is shorter is
// taken without a word, what is longer ends the process. And whether a message has come
// can be waited for, but not asked. So every peer has a listener here, a thread with a few
// frames always on offer, and a message goes out as
//
//   frame   header and at most 64 KiB of the message     tag 0
//   rest    what is left of it, if anything              a tag that the header names
//
// A frame finds its receive, or the receive its frame, in the Lane of its channel and
// sender; the rest is asked for when both are known, its length checked against the limit.
// A frame is always on offer, so a message of up to 64 KiB needs no round trip and no
// help from the receiver; a longer one needs one round trip more, which takes less time
// than 64 KiB do on a link worth compressing for.
//
// Order: Gloo hands messages of one tag to the receives of that tag in the order in which
// both were started, so the frames of one sender come in order, and the rests have tags of
// their own. python/tests/test_link.py holds it to that.
//
// Deadlines are kept here, for a wait of Gloo's that runs out of time closes every
// connection. A peer whose connection breaks is known at once to its listener. Shortly
// before its deadline a rank says whom it misses, and whoever gives up says whom it lost, so
// that all name the rank that is to blame and not the one that they happened to wait for.
//
// Received bytes come into memory of this file's and are handed over by wait(). What is
// being sent is the caller's, and who goes on after a LinkError keeps it.

#include "transports/c10d.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <unordered_map>
#include <utility>

#include "core/text.h"
#include "topknot/error.h"

namespace topknot {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;
using Work = c10::intrusive_ptr<c10d::Work>;

constexpr int kFrameTag = 0;
constexpr std::uint32_t kRestTags = 4096;  // from 1 on; more rests at once share tags
constexpr std::size_t kEager = std::size_t{64} << 10;
constexpr std::size_t kFramesOnOffer = 4;
constexpr double kGrace = 0.1;  // of the timeout: for others to say whom they miss
constexpr std::chrono::milliseconds kForEver{std::int64_t{1} << 40};

enum class Kind : std::uint32_t { data, suspicion, obituary, goodbye };

struct Header {
  std::uint64_t channel = 0;
  std::uint64_t length = 0;  // of the whole message
  Kind kind = Kind::data;
  std::uint32_t rest_tag = 0;  // 0: there is no rest
  std::int32_t lost = -1;      // of a suspicion or an obituary: whose
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Header) == 32);

/// A message or the receive of one, as this rank sees it.
struct Letter {
  int peer = 0;
  bool is_send = false;
  Bytes bytes;  // a send's frame, or what was received
  std::vector<std::byte>* into = nullptr;
  std::size_t limit = 0;
  std::size_t too_long = 0;  // the length that broke the limit, if one did
  bool matched = false;      // a receive has met its frame
  Work frame;                // of a send
  Work rest;
};

/// What one rank sends us over one channel: frames that nobody has asked for yet, or
/// receives that have no frame yet.
struct Lane {
  struct Arrival {
    Header header;
    Bytes bytes;
  };
  std::deque<Arrival> arrived;
  std::deque<std::shared_ptr<Letter>> wanted;
};

// What a library's exception says, without its place in the sources and its call stack.
std::string reason_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  if (text.starts_with('['))
    text.erase(0, std::min(text.find("] "), text.size() - 2) + 2);
  text.erase(std::min({text.find('\n'), text.find(". "), text.size()}));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

at::Tensor tensor_over(const std::byte* bytes, std::size_t size) {
  return at::from_blob(const_cast<std::byte*>(bytes), {static_cast<std::int64_t>(size)},
                       at::kByte);
}

// What c10d calls abort ends a wait for this message, now or later, and nothing else.
void wake(c10d::Work& work) { std::invoke(&c10d::Work::abort, work); }

/// The group, its listeners and the lanes of all its channels.
class Office {
 public:
  Office(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<int> hosts,
         const LinkOptions& options)
      : timeout_(options.timeout),
        hosts_(std::move(hosts)),
        group_(std::move(group)),
        backend_(group_->getBackend(c10::DeviceType::CPU)),
        rank_(backend_->getRank()),
        size_(backend_->getSize()),
        gone_(static_cast<std::size_t>(size_)),
        suspects_(static_cast<std::size_t>(size_), -1),
        next_tag_(static_cast<std::size_t>(size_)),
        desks_(static_cast<std::size_t>(size_)) {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) offer_frames(peer);
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
        desks_[at(peer)].listener = std::thread([this, peer] { listen(peer); });
  }

  // No listener may be left in a wait, nor Gloo with memory that is about to go.
  ~Office() {
    {
      const std::scoped_lock lock(mutex_);
      closing_ = true;
      if (!lost_) tell_all({.kind = Kind::goodbye});
      for (Desk& desk : desks_)
        for (Work& work : desk.offers)
          if (work) wake(*work);
    }
    for (Desk& desk : desks_)
      if (desk.listener.joinable()) desk.listener.join();
  }

  Office(const Office&) = delete;
  Office& operator=(const Office&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  double timeout() const noexcept { return timeout_; }
  const std::vector<int>& hosts() const noexcept { return hosts_; }
  c10d::Backend& backend() noexcept { return *backend_; }

  void start(std::uint64_t channel, Letter& letter, std::span<const std::byte> bytes) {
    const std::size_t eager = std::min(bytes.size(), kEager);
    Header header{.channel = channel, .length = bytes.size()};
    if (letter.peer == rank_) {
      const std::scoped_lock lock(mutex_);
      take(letter.peer, header, bytes);
      return;
    }
    if (eager < bytes.size()) {
      const std::scoped_lock lock(mutex_);
      std::uint32_t& next = next_tag_[at(letter.peer)];
      header.rest_tag = 1 + next++ % kRestTags;
    }
    letter.bytes = framed(header, bytes.first(eager));
    guarded(letter.peer, [&] {
      letter.frame = post_send(letter.peer, letter.bytes, kFrameTag);
      if (header.rest_tag != 0)
        letter.rest = post_send(letter.peer, bytes.subspan(eager),
                                static_cast<int>(header.rest_tag));
    });
  }

  void want(std::uint64_t channel, const std::shared_ptr<Letter>& letter) {
    const std::scoped_lock lock(mutex_);
    Lane& lane = lanes_[{channel, letter->peer}];
    if (lane.arrived.empty()) {
      lane.wanted.push_back(letter);
    } else {
      hand_over(*letter, lane.arrived.front().header, lane.arrived.front().bytes);
      lane.arrived.pop_front();
    }
  }

  /// Returns when the letter's frame is here, and what is known of its rest.
  void await_frame(const Letter& letter, Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    const auto is_decided = [&] {
      return letter.matched || lost_ || gone_[at(letter.peer)];
    };
    const auto grace = std::chrono::duration<double>(kGrace * timeout_);
    const auto soon = deadline - std::chrono::duration_cast<Clock::duration>(grace);
    if (!changed_.wait_until(lock, soon, is_decided)) {
      tell_all({.kind = Kind::suspicion, .lost = letter.peer});
      changed_.wait_until(lock, deadline, is_decided);
    }
    if (letter.matched) return;
    if (!lost_ && !gone_[at(letter.peer)]) {
      const int culprit = behind(letter.peer);
      condemn(culprit, silence_of(culprit));
    }
    give_up(lock, letter.peer);
  }

  /// Waits until Gloo has done with `work`, which has to do with `peer`.
  void await(const Work& work, int peer, Clock::time_point deadline) {
    {
      std::unique_lock lock(mutex_);
      if (lost_) give_up(lock, peer);
      waited_for_.insert(work.get());
    }
    using std::chrono::milliseconds;
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    bool done = false;
    std::string why;
    try {
      done = work->wait(std::max(left, milliseconds(1)));
    } catch (const std::exception& error) {
      why = reason_of(error);
    }
    std::unique_lock lock(mutex_);
    waited_for_.erase(work.get());
    if (done) return;
    if (!lost_)
      condemn(peer, Clock::now() >= deadline ? silence_of(peer) : parting_of(peer, why));
    give_up(lock, peer);
  }

  /// The owner of these letters goes away: no peer's bytes may come into them any more.
  void withdraw(std::uint64_t channel,
                const std::vector<std::shared_ptr<Letter>>& letters) {
    const std::scoped_lock lock(mutex_);
    for (const auto& letter : letters)
      if (!letter->is_send) std::erase(lanes_[{channel, letter->peer}].wanted, letter);
  }

  [[noreturn]] void fail(int peer, const std::string& sentence) {
    std::unique_lock lock(mutex_);
    if (!lost_) condemn(peer, sentence);
    give_up(lock, peer);
  }

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
  /// Where one peer's frames come in.
  struct Desk {
    std::thread listener;
    bool said_goodbye = false;
    std::array<Bytes, kFramesOnOffer> frames;
    std::array<Work, kFramesOnOffer> offers;
  };
  struct Loss {
    int peer;
    std::string sentence;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  static Bytes framed(const Header& header, std::span<const std::byte> bytes) {
    Bytes frame(sizeof(Header) + bytes.size());
    std::memcpy(frame.data(), &header, sizeof(Header));
    std::copy(bytes.begin(), bytes.end(), frame.begin() + sizeof(Header));
    return frame;
  }

  Work post_send(int peer, std::span<const std::byte> bytes, int tag) {
    std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
    return backend_->send(tensors, peer, tag);
  }

  Work post_receive(int peer, std::span<std::byte> bytes, int tag) {
    std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
    return backend_->recv(tensors, peer, tag);
  }

  void offer_frames(int peer) {
    Desk& desk = desks_[at(peer)];
    guarded(peer, [&] {
      for (std::size_t i = 0; i < kFramesOnOffer; ++i) {
        desk.frames[i].resize(sizeof(Header) + kEager);
        desk.offers[i] = post_receive(peer, desk.frames[i], kFrameTag);
      }
    });
  }

  void listen(int peer) {
    Desk& desk = desks_[at(peer)];
    try {
      for (std::size_t i = 0;; i = (i + 1) % kFramesOnOffer) {
        const Work offer = desk.offers[i];
        const bool came = offer->wait(kForEver);
        const std::scoped_lock lock(mutex_);
        if (closing_ || !came) return;
        read(peer, desk.frames[i]);
        desk.offers[i] = post_receive(peer, desk.frames[i], kFrameTag);
      }
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex_);
      gone_[at(peer)] = parting_of(peer, reason_of(error));
      if (!first_gone_ && !desk.said_goodbye) first_gone_ = peer;
      changed_.notify_all();
    }
  }

  // ---- with the mutex held

  void read(int peer, const Bytes& frame) {
    Header header;
    std::memcpy(&header, frame.data(), sizeof(Header));
    if (header.kind == Kind::obituary) {
      if (!lost_ && header.lost >= 0 && header.lost < size_)
        condemn(header.lost,
                "rank " + std::to_string(header.lost) + " was lost, says rank " +
                    std::to_string(peer),
                /*tell=*/false);
      return;
    }
    if (header.kind == Kind::suspicion) {
      suspects_[at(peer)] = header.lost;
      return;
    }
    if (header.kind == Kind::goodbye) {
      desks_[at(peer)].said_goodbye = true;
      return;
    }
    const std::size_t eager = std::min<std::size_t>(header.length, kEager);
    take(peer, header, std::span(frame).subspan(sizeof(Header), eager));
  }

  void take(int peer, const Header& header, std::span<const std::byte> bytes) {
    Lane& lane = lanes_[{header.channel, peer}];
    if (lane.wanted.empty()) {
      lane.arrived.push_back({header, Bytes(bytes.begin(), bytes.end())});
    } else {
      const std::shared_ptr<Letter> letter = lane.wanted.front();
      lane.wanted.pop_front();
      hand_over(*letter, header, bytes);
    }
    changed_.notify_all();
  }

  void hand_over(Letter& letter, const Header& header, std::span<const std::byte> bytes) {
    if (header.length > letter.limit) {
      letter.too_long = header.length;
    } else {
      letter.bytes.resize(header.length);
      std::copy(bytes.begin(), bytes.end(), letter.bytes.begin());
      if (header.rest_tag != 0)
        letter.rest =
            post_receive(letter.peer, std::span(letter.bytes).subspan(bytes.size()),
                         static_cast<int>(header.rest_tag));
    }
    letter.matched = true;
  }

  // A rank that is silent because it misses another one is not to blame.
  int behind(int peer) const {
    int culprit = peer;
    for (int hop = 0; hop < size_; ++hop) {
      const int next = suspects_[at(culprit)];
      if (next < 0 || next >= size_ || next == rank_) break;
      culprit = next;
    }
    return culprit;
  }

  std::string silence_of(int peer) const {
    return "rank " + std::to_string(peer) + " has been silent for " +
           core::shortest(timeout_) + " s";
  }

  static std::string parting_of(int peer, const std::string& why) {
    return "rank " + std::to_string(peer) + " has gone" + (why.empty() ? "" : ": " + why);
  }

  // From here on every wait of every channel fails.
  void condemn(int peer, std::string sentence, bool tell = true) {
    lost_ = {peer, std::move(sentence)};
    for (c10d::Work* work : waited_for_) wake(*work);
    changed_.notify_all();
    if (tell) tell_all({.kind = Kind::obituary, .lost = peer});
  }

  // Nobody waits for these to arrive: who does not get one finds out by itself.
  void tell_all(const Header& news) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_ || gone_[at(peer)]) continue;
      farewells_.push_back({framed(news, {}), {}});
      try {
        farewells_.back().second = post_send(peer, farewells_.back().first, kFrameTag);
      } catch (const std::exception&) {
        gone_[at(peer)] = parting_of(peer, "");
      }
    }
  }

  // The rank that went first is to blame, whoever was being waited for.
  [[noreturn]] void give_up(std::unique_lock<std::mutex>&, int peer) {
    if (!lost_) {
      const int culprit = first_gone_.value_or(peer);
      condemn(culprit, *gone_[at(culprit)]);
    }
    throw LinkError(lost_->peer, lost_->sentence);
  }

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

class C10d final : public Transport {
 public:
  C10d(std::shared_ptr<Office> office, std::uint64_t channel)
      : office_(std::move(office)), channel_(channel) {}

  ~C10d() override {
    std::vector<std::shared_ptr<Letter>> open;
    for (auto& [id, letter] : letters_) open.push_back(letter);
    office_->withdraw(channel_, open);
  }

  int rank() const noexcept override { return office_->rank(); }
  int size() const noexcept override { return office_->size(); }

  Pending send(int to, std::span<const std::byte> bytes) override {
    auto letter = new_letter(to);
    letter->is_send = true;
    office_->start(channel_, *letter, bytes);
    return keep(std::move(letter));
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    auto letter = new_letter(from);
    letter->into = &into;
    letter->limit = limit;
    letter->bytes = std::move(into);
    into.clear();
    office_->guarded(from, [&] { office_->want(channel_, letter); });
    return keep(std::move(letter));
  }

  void wait(Pending message) override {
    const auto found = letters_.find(static_cast<std::uint64_t>(message));
    if (found == letters_.end())
      throw ContractError("A message was waited for that is not under way.");
    const std::shared_ptr<Letter> letter = std::move(found->second);
    letters_.erase(found);
    const auto deadline = deadline_from_now();
    if (letter->is_send) {
      if (letter->frame) office_->await(letter->frame, letter->peer, deadline);
    } else {
      office_->await_frame(*letter, deadline);
      if (letter->too_long != 0) refuse(*letter);
    }
    if (letter->rest) office_->await(letter->rest, letter->peer, deadline);
    if (!letter->is_send) *letter->into = std::move(letter->bytes);
  }

  bool allreduce(std::span<float> x) override {
    const int next = (rank() + 1) % size();
    Work work;
    office_->guarded(next, [&] {
      std::vector<at::Tensor> tensors = {
          at::from_blob(x.data(), {static_cast<std::int64_t>(x.size())}, at::kFloat)};
      work = office_->backend().allreduce(tensors);
    });
    office_->await(work, next, deadline_from_now());
    return true;
  }

  double now() const noexcept override {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }

  int node_of(int rank) const noexcept override {
    return office_->hosts().empty() ? rank
                                    : office_->hosts()[static_cast<std::size_t>(rank)];
  }

  // A channel is known by the way to it from the root, mixed to a word.
  std::unique_ptr<Transport> channel(int id) override {
    std::uint64_t x = channel_ * 0x9E3779B97F4A7C15U + static_cast<std::uint32_t>(id) + 1;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return std::make_unique<C10d>(office_, x ^ (x >> 31));
  }

 private:
  std::shared_ptr<Letter> new_letter(int peer) const {
    if (peer < 0 || peer >= size())
      throw ContractError("There is no rank " + std::to_string(peer) + " among " +
                          std::to_string(size()) + ".");
    auto letter = std::make_shared<Letter>();
    letter->peer = peer;
    return letter;
  }

  Pending keep(std::shared_ptr<Letter> letter) {
    letters_.emplace(++last_id_, std::move(letter));
    return static_cast<Pending>(last_id_);
  }

  Clock::time_point deadline_from_now() const {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(office_->timeout()));
  }

  [[noreturn]] void refuse(const Letter& letter) const {
    office_->fail(letter.peer,
                  "rank " + std::to_string(letter.peer) + " sent a message of " +
                      std::to_string(letter.too_long) + " bytes where at most " +
                      std::to_string(letter.limit) + " were expected");
  }

  const std::shared_ptr<Office> office_;
  const std::uint64_t channel_;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<Letter>> letters_;
};

}  // namespace

std::unique_ptr<Transport> make_c10d(const std::string& group, std::vector<int> hosts,
                                     const LinkOptions& options) {
  if (!(options.timeout > 0))
    throw ConfigError("the timeout must be more than 0 seconds, not " +
                      seconds(options.timeout));
  c10::intrusive_ptr<c10d::ProcessGroup> found;
  try {
    found = c10d::resolve_process_group(group);
  } catch (const std::exception& error) {
    throw ConfigError("There is no process group named " + group + ": " +
                      reason_of(error) + ".");
  }
  const std::string kind = found->getBackend(c10::DeviceType::CPU)->getBackendName();
  if (kind != "gloo")
    throw ConfigError("The process group must be one of Gloo's, made by " +
                      std::string("dist.new_group(backend=\"gloo\"), not of ") + kind +
                      ".");
  if (!hosts.empty() && hosts.size() != static_cast<std::size_t>(found->getSize()))
    throw ContractError("There are " + std::to_string(hosts.size()) + " hosts for " +
                        std::to_string(found->getSize()) + " ranks.");
  return std::make_unique<C10d>(
      std::make_shared<Office>(std::move(found), std::move(hosts), options), 0);
}

}  // namespace topknot

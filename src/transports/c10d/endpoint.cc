// SPDX-License-Identifier: Apache-2.0
#include "transports/c10d/endpoint.h"

#include <algorithm>
#include <list>

#include "core/text.h"
#include "topknot/error.h"

namespace topknot::c10d_link {
namespace {

using Kind = Header::Kind;

// How long a lost connection waits for another rank to report the cause first.
constexpr std::chrono::milliseconds kCauseTime{200};
// Between two looks at what nobody waits for: short while frames come, and longer and longer while
// none do.
constexpr std::chrono::microseconds kShortestPause{250};
constexpr std::chrono::microseconds kLongestPause{16'000};
// A deadline is late by no more than this.
constexpr auto kCheckTime = FailureAgreement::kAnswerTime / 10.0;

}  // namespace

std::string reason_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  if (text.starts_with('['))
    text.erase(0, std::min(text.find("] "), text.size() - 2) + 2);
  text.erase(std::min({text.find('\n'), text.find(". "), text.size()}));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

Endpoint::Endpoint(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<int> hosts,
                   const LinkOptions& options)
    : hosts_(std::move(hosts)),
      group_(std::move(group)),
      backend_(group_->getBackend(c10::DeviceType::CPU)),
      rank_(backend_->getRank()),
      size_(backend_->getSize()),
      peers_(static_cast<std::size_t>(size_)),
      next_tag_(static_cast<std::size_t>(size_)),
      agreement_(rank_, size_, options.timeout,
                 {[this](int to, const Bytes& message) { post_control(to, message); },
                  [this] { wake_all(); }}) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      guarded(peer, [&] {
        peers_[at(peer)].receiver = std::make_unique<PeerReceiver>(backend_, peer);
      });
  poller_ = std::thread([this] { poll(); });
}

Endpoint::~Endpoint() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    if (!agreement_.failed())
      for (int peer = 0; peer < size_; ++peer)
        if (peer != rank_) post(peer, {.kind = Kind::closing}, {});
  }
  closed_.notify_all();
  poller_.join();
  keep_memory_for_gloo();
}

// The group and its connections outlive the endpoint. When a message arrives for a receive whose
// memory has been freed, Gloo's thread neither reads the message nor waits: it polls and takes a
// whole core. So the memory is kept until the process ends, as the group is.
void Endpoint::keep_memory_for_gloo() {
  struct Kept {
    std::vector<Peer> peers;
    std::deque<std::pair<Bytes, Work>> posted;
  };
  static std::mutex mutex;
  static auto& kept = *new std::list<Kept>;
  const std::scoped_lock lock(mutex);
  kept.push_back({std::move(peers_), std::move(posted_)});
}

void Endpoint::start(std::uint64_t channel, Operation& operation,
                     std::span<const std::byte> bytes) {
  const std::size_t eager = std::min(bytes.size(), kEager);
  Header header{.channel = channel, .length = bytes.size()};
  if (operation.peer == rank_) {
    const std::scoped_lock lock(mutex_);
    take(operation.peer, header, bytes);
    return;
  }
  if (eager < bytes.size()) {
    const std::scoped_lock lock(mutex_);
    std::uint32_t& next = next_tag_[at(operation.peer)];
    header.rest_tag = 1 + next++ % kRestTags;
  }
  operation.bytes = make_frame(header, bytes.first(eager));
  guarded(operation.peer, [&] {
    operation.frame = post_send(*backend_, operation.peer, operation.bytes, kFrameTag);
    if (header.rest_tag != 0)
      operation.rest = post_send(*backend_, operation.peer, bytes.subspan(eager),
                                 static_cast<int>(header.rest_tag));
  });
}

void Endpoint::want(std::uint64_t channel, const std::shared_ptr<Operation>& operation) {
  const std::scoped_lock lock(mutex_);
  Queue& queue = queues_[{channel, operation->peer}];
  if (queue.arrived.empty()) {
    queue.wanted.push_back(operation);
  } else {
    match(*operation, queue.arrived.front().first, queue.arrived.front().second);
    queue.arrived.pop_front();
    --peers_[at(operation->peer)].queued;
  }
}

void Endpoint::await_frame(const Operation& operation, std::optional<double> limit) {
  const int peer = operation.peer;
  Lock lock(mutex_);
  if (operation.matched) return;
  const FailureAgreement::Wait wait(agreement_, peer, limit);
  while (!operation.matched && !agreement_.failed() && !peers_[at(peer)].lost) {
    if (peer == rank_ || peers_[at(peer)].is_read)
      changed_.wait(lock);
    else
      wait_for_frame(lock, peer);
  }
  if (operation.matched) return;
  lock.unlock();
  throw_lost(peer, "");
}

void Endpoint::await(const Work& work, int peer, int whom, std::optional<double> limit) {
  require_not_failed();
  {
    const std::scoped_lock lock(mutex_);
    waited_for_.insert(work.get());
  }
  bool done = false;
  std::string why;
  {
    const FailureAgreement::Wait wait(agreement_, whom, limit);
    if (!agreement_.failed()) try {
        done = wait_for(*work);
      } catch (const std::exception& error) {
        why = reason_of(error);
      }
  }
  {
    const std::scoped_lock lock(mutex_);
    waited_for_.erase(work.get());
  }
  if (!done) throw_lost(peer, lost_sentence(peer, why));
}

void Endpoint::withdraw(std::uint64_t channel,
                        const std::vector<std::shared_ptr<Operation>>& operations) {
  const std::scoped_lock lock(mutex_);
  for (const auto& operation : operations) {
    if (!operation->is_send) {
      std::erase(queues_[{channel, operation->peer}].wanted, operation);
      if (operation->rest)
        posted_.push_back({std::move(operation->bytes), operation->rest});
      continue;
    }
    // A frame that is cut off would break the connection, so its memory is kept.
    if (operation->frame)
      posted_.push_back({std::move(operation->bytes), operation->frame});
    operation->rest.reset();
    operation->shared.reset();
  }
}

// The cause of the failure is the one that another rank has reported, if any; else it is the
// first rank whose connection broke, whichever this rank was waiting for.
void Endpoint::throw_lost(int peer, const std::string& sentence) {
  Failure failure{peer, sentence};
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kCauseTime, [&] { return agreement_.failed(); });
    const int first = first_lost_.value_or(peer);
    if (peers_[at(first)].lost) failure = {first, *peers_[at(first)].lost};
  }
  agreement_.fail(std::move(failure));
  agreement_.failure().raise();
}

std::string Endpoint::lost_sentence(int peer, const std::string& why) {
  return "rank " + std::to_string(peer) + " has gone" + (why.empty() ? "" : ": " + why);
}

void Endpoint::poll() {
  auto pause = kShortestPause;
  Clock::time_point next_check;
  Lock lock(mutex_);
  while (!closing_) {
    bool came = false;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) came |= read_what_has_arrived(lock, peer);
    if (Clock::now() >= next_check) {
      find_broken_connections();
      lock.unlock();
      agreement_.check(Clock::now());
      lock.lock();
      next_check = Clock::now() + std::chrono::duration_cast<Clock::duration>(kCheckTime);
    }
    pause = came ? kShortestPause : std::min(2 * pause, kLongestPause);
    closed_.wait_for(lock, pause, [&] { return closing_; });
  }
}

void Endpoint::post_control(int peer, const Bytes& message) {
  const std::scoped_lock lock(mutex_);
  post(peer, {.length = message.size(), .kind = Kind::control}, message);
}

void Endpoint::wake_all() {
  const std::scoped_lock lock(mutex_);
  for (c10d::Work* work : waited_for_) wake(*work);
  changed_.notify_all();
}

// ---- with the mutex held, but for waits and calls of the agreement

// The caller's thread waits for the next frame of a peer, whichever channel it is for.
void Endpoint::wait_for_frame(Lock& lock, int peer) {
  Peer& one = peers_[at(peer)];
  Work next;
  bool came = false;
  std::exception_ptr broken;
  one.is_read = true;
  try {
    next = one.receiver->next();
    waited_for_.insert(next.get());
    lock.unlock();
    came = wait_for(*next);
  } catch (const std::exception&) {
    broken = std::current_exception();
  }
  if (!lock.owns_lock()) lock.lock();
  waited_for_.erase(next.get());
  one.is_read = false;
  if (came) receive(lock, peer);
  if (broken) {
    find_broken_connections();  // what else is broken was broken before
    lose(peer, broken);
  }
  changed_.notify_all();
}

bool Endpoint::read_what_has_arrived(Lock& lock, int peer) {
  bool came = false;
  const auto is_there = [&, &one = peers_[at(peer)]] {
    return !one.is_read && !one.lost && one.receiver->has_arrived();
  };
  try {
    for (; is_there() && wait_for(*peers_[at(peer)].receiver->next()); came = true)
      receive(lock, peer);
  } catch (const std::exception&) {
    lose(peer, std::current_exception());
  }
  return came;
}

// The next frame of the peer has come.
void Endpoint::receive(Lock& lock, int peer) {
  Consequence consequence;
  try {
    consequence = read(peer, peers_[at(peer)].receiver->memory());
  } catch (const std::exception&) {
    lose(peer, std::current_exception());
  }
  peers_[at(peer)].receiver->post_again();
  lock.unlock();
  if (!consequence.control.empty()) agreement_.receive(peer, consequence.control);
  if (consequence.failure) agreement_.fail(*consequence.failure);
  lock.lock();
}

// ---- with the mutex held

Endpoint::Consequence Endpoint::read(int peer, std::span<const std::byte> memory) {
  const auto read = read_frame(memory);
  const auto failure = [&](const std::string& what) {
    return Consequence{.failure =
                           Failure{peer, "rank " + std::to_string(peer) + " sent rank " +
                                             std::to_string(rank_) + " " + what}};
  };
  if (const auto* fault = std::get_if<std::string>(&read)) return failure(*fault);
  const auto& [header, bytes] = std::get<Frame>(read);
  switch (header.kind) {
    case Kind::control:
      return {.control = {bytes.begin(), bytes.end()}};
    case Kind::closing:
      peers_[at(peer)].closed_in_order = true;
      return {};
    case Kind::data:
      if (peers_[at(peer)].queued == kMostFramesQueued)
        return failure(std::to_string(kMostFramesQueued) +
                       " messages before they were asked for");
      take(peer, header, bytes);
  }
  return {};
}

void Endpoint::take(int peer, const Header& header, std::span<const std::byte> bytes) {
  Queue& queue = queues_[{header.channel, peer}];
  if (queue.wanted.empty()) {
    ++peers_[at(peer)].queued;
    queue.arrived.push_back({header, Bytes(bytes.begin(), bytes.end())});
  } else {
    const std::shared_ptr<Operation> operation = queue.wanted.front();
    queue.wanted.pop_front();
    match(*operation, header, bytes);
  }
  changed_.notify_all();
}

void Endpoint::match(Operation& operation, const Header& header,
                     std::span<const std::byte> bytes) {
  if (header.length > operation.limit) {
    operation.too_long = header.length;
    const auto first = bytes.first(std::min(bytes.size(), operation.limit));
    operation.bytes.assign(first.begin(), first.end());
  } else {
    operation.bytes.resize(header.length);
    std::copy(bytes.begin(), bytes.end(), operation.bytes.begin());
    if (header.rest_tag != 0)
      operation.rest = post_receive(*backend_, operation.peer,
                                    std::span(operation.bytes).subspan(bytes.size()),
                                    static_cast<int>(header.rest_tag));
  }
  operation.matched = true;
}

// Nobody waits for these messages: a rank that does not get one finds the failure itself. Where the
// connection is broken, there may still be frames of the peer to be read.
void Endpoint::post(int peer, const Header& header, std::span<const std::byte> bytes) {
  posted_.push_back({make_frame(header, bytes), {}});
  try {
    posted_.back().second = post_send(*backend_, peer, posted_.back().first, kFrameTag);
  } catch (const std::exception&) {
    posted_.pop_back();
  }
}

void Endpoint::find_broken_connections() {
  for (int peer = 0; peer < size_; ++peer) {
    Peer& one = peers_[at(peer)];
    if (!one.receiver || one.is_read || one.lost) continue;
    try {
      one.receiver->require_connected();
    } catch (const std::exception&) {
      lose(peer, std::current_exception());
    }
  }
}

void Endpoint::lose(int peer, const std::exception_ptr& broken) {
  Peer& one = peers_[at(peer)];
  if (one.lost) return;
  try {
    std::rethrow_exception(broken);
  } catch (const std::exception& error) {
    one.lost = lost_sentence(peer, reason_of(error));
  }
  if (!first_lost_ && !one.closed_in_order) first_lost_ = peer;
  changed_.notify_all();
}

}  // namespace topknot::c10d_link

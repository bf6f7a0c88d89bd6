// SPDX-License-Identifier: Apache-2.0
#include "transports/c10d/endpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <list>

#include "core/text.h"
#include "topknot/error.h"

namespace topknot::c10d_link {
namespace {

using Kind = Header::Kind;

constexpr int kFrameTag = 0;
// How long a lost connection waits for another rank to report the cause first.
constexpr std::chrono::milliseconds kCauseTime{200};
constexpr std::chrono::milliseconds kNoTimeout{std::int64_t{1} << 40};

at::Tensor tensor_over(const std::byte* bytes, std::size_t size) {
  return at::from_blob(const_cast<std::byte*>(bytes), {static_cast<std::int64_t>(size)},
                       at::kByte);
}

// c10d's abort() ends a wait for this message, now or later, and does nothing else.
void wake(c10d::Work& work) { std::invoke(&c10d::Work::abort, work); }

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
      lost_(static_cast<std::size_t>(size_)),
      next_tag_(static_cast<std::size_t>(size_)),
      receivers_(static_cast<std::size_t>(size_)),
      agreement_(rank_, size_, options.timeout,
                 {[this](int to, const Bytes& message) { post_control(to, message); },
                  [this] { wake_all(); }}) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) offer_frames(peer);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      receivers_[at(peer)].listener = std::thread([this, peer] { listen(peer); });
  deadlines_ = std::thread([this] { keep_deadlines(); });
}

Endpoint::~Endpoint() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    if (!agreement_.failed())
      for (int peer = 0; peer < size_; ++peer)
        if (peer != rank_) post(peer, {.kind = Kind::closing}, {});
    for (PeerReceiver& receiver : receivers_)
      for (Work& work : receiver.offers)
        if (work) wake(*work);
  }
  changed_.notify_all();
  deadlines_.join();
  for (PeerReceiver& receiver : receivers_)
    if (receiver.listener.joinable()) receiver.listener.join();
  keep_memory_for_gloo();
}

// The group and its connections outlive the endpoint. When a message arrives for a receive whose
// memory has been freed, Gloo's thread neither reads the message nor waits: it polls and takes a
// whole core. So the memory is kept until the process ends, as the group is.
void Endpoint::keep_memory_for_gloo() {
  struct Kept {
    std::vector<PeerReceiver> receivers;
    std::deque<std::pair<Bytes, Work>> posted;
  };
  static std::mutex mutex;
  static auto& kept = *new std::list<Kept>;
  const std::scoped_lock lock(mutex);
  kept.push_back({std::move(receivers_), std::move(posted_)});
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
    operation.frame = post_send(operation.peer, operation.bytes, kFrameTag);
    if (header.rest_tag != 0)
      operation.rest = post_send(operation.peer, bytes.subspan(eager),
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
    --receivers_[at(operation->peer)].queued;
  }
}

void Endpoint::await_frame(const Operation& operation) {
  std::unique_lock lock(mutex_);
  if (operation.matched) return;
  const FailureAgreement::Wait wait(agreement_, operation.peer);
  changed_.wait(lock, [&] {
    return operation.matched || agreement_.failed() || lost_[at(operation.peer)];
  });
  if (operation.matched) return;
  lock.unlock();
  throw_lost(operation.peer, "");
}

void Endpoint::await(const Work& work, int peer, int whom) {
  require_not_failed();
  {
    const std::scoped_lock lock(mutex_);
    waited_for_.insert(work.get());
  }
  bool done = false;
  std::string why;
  {
    const FailureAgreement::Wait wait(agreement_, whom);
    if (!agreement_.failed()) try {
        done = work->wait(kNoTimeout);
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
    if (lost_[at(first)]) failure = {first, *lost_[at(first)]};
  }
  agreement_.fail(std::move(failure));
  agreement_.failure().raise();
}

std::string Endpoint::lost_sentence(int peer, const std::string& why) {
  return "rank " + std::to_string(peer) + " has gone" + (why.empty() ? "" : ": " + why);
}

// A deadline is late by no more than the pause between two checks.
void Endpoint::keep_deadlines() {
  constexpr auto pause = FailureAgreement::kAnswerTime / 10.0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [&] { return closing_; })) {
    lock.unlock();
    agreement_.check(Clock::now());
    lock.lock();
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

Work Endpoint::post_send(int peer, std::span<const std::byte> bytes, int tag) {
  std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
  return backend_->send(tensors, peer, tag);
}

Work Endpoint::post_receive(int peer, std::span<std::byte> bytes, int tag) {
  std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
  return backend_->recv(tensors, peer, tag);
}

void Endpoint::offer_frames(int peer) {
  PeerReceiver& receiver = receivers_[at(peer)];
  guarded(peer, [&] {
    for (std::size_t i = 0; i < kFramesOnOffer; ++i) {
      receiver.frames[i].resize(sizeof(Header) + kEager);
      receiver.offers[i] = post_receive(peer, receiver.frames[i], kFrameTag);
    }
  });
}

void Endpoint::listen(int peer) {
  PeerReceiver& receiver = receivers_[at(peer)];
  try {
    for (std::size_t i = 0;; i = (i + 1) % kFramesOnOffer) {
      const Work offer = receiver.offers[i];
      const bool came = offer->wait(kNoTimeout);
      Bytes control;
      {
        const std::scoped_lock lock(mutex_);
        if (closing_ || !came) return;
        control = read(peer, receiver.frames[i]);
        receiver.offers[i] = post_receive(peer, receiver.frames[i], kFrameTag);
      }
      if (!control.empty()) agreement_.receive(peer, control);
    }
  } catch (const LinkError& cause) {  // the connection is as good as before
    agreement_.fail(Failure::of(cause));
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    lost_[at(peer)] = lost_sentence(peer, reason_of(error));
    if (!first_lost_ && !receiver.closed_in_order) first_lost_ = peer;
    changed_.notify_all();
  }
}

// ---- with the mutex held

// Returns the control message in a frame, which is not for a channel.
Bytes Endpoint::read(int peer, std::span<const std::byte> memory) {
  const auto read = read_frame(memory);
  if (const auto* fault = std::get_if<std::string>(&read))
    throw LinkError(peer, "rank " + std::to_string(peer) + " sent rank " +
                              std::to_string(rank_) + " " + *fault);
  const auto& [header, bytes] = std::get<Frame>(read);
  switch (header.kind) {
    case Kind::control:
      return {bytes.begin(), bytes.end()};
    case Kind::closing:
      receivers_[at(peer)].closed_in_order = true;
      return {};
    case Kind::data:
      take(peer, header, bytes);
  }
  return {};
}

void Endpoint::take(int peer, const Header& header, std::span<const std::byte> bytes) {
  Queue& queue = queues_[{header.channel, peer}];
  if (queue.wanted.empty()) {
    if (receivers_[at(peer)].queued++ == kMostFramesQueued)
      throw LinkError(peer, "rank " + std::to_string(peer) + " sent rank " +
                                std::to_string(rank_) + " " +
                                std::to_string(kMostFramesQueued) +
                                " messages before they were asked for");
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
      operation.rest =
          post_receive(operation.peer, std::span(operation.bytes).subspan(bytes.size()),
                       static_cast<int>(header.rest_tag));
  }
  operation.matched = true;
}

// Nobody waits for these messages: a rank that does not get one finds the failure itself.
void Endpoint::post(int peer, const Header& header, std::span<const std::byte> bytes) {
  if (lost_[at(peer)]) return;
  posted_.push_back({make_frame(header, bytes), {}});
  try {
    posted_.back().second = post_send(peer, posted_.back().first, kFrameTag);
  } catch (const std::exception&) {
    lost_[at(peer)] = lost_sentence(peer, "");
  }
}

}  // namespace topknot::c10d_link

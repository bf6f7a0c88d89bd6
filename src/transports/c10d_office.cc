// SPDX-License-Identifier: Apache-2.0
#include "transports/c10d_office.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/text.h"
#include "topknot/error.h"

namespace topknot::c10d_link {
namespace {

using Kind = Header::Kind;

constexpr int kFrameTag = 0;
constexpr std::uint32_t kRestTags = 4096;  // from 1 on; more rests at once share tags
constexpr std::size_t kEager = std::size_t{64} << 10;
constexpr double kGrace = 0.1;  // of the timeout: for others to say whom they miss
constexpr std::chrono::milliseconds kForEver{std::int64_t{1} << 40};

at::Tensor tensor_over(const std::byte* bytes, std::size_t size) {
  return at::from_blob(const_cast<std::byte*>(bytes), {static_cast<std::int64_t>(size)},
                       at::kByte);
}

// What c10d calls abort ends a wait for this message, now or later, and nothing else.
void wake(c10d::Work& work) { std::invoke(&c10d::Work::abort, work); }

Bytes framed(const Header& header, std::span<const std::byte> bytes) {
  Bytes frame(sizeof(Header) + bytes.size());
  std::memcpy(frame.data(), &header, sizeof(Header));
  std::copy(bytes.begin(), bytes.end(), frame.begin() + sizeof(Header));
  return frame;
}

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

Office::Office(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<int> hosts,
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

Office::~Office() {
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

void Office::start(std::uint64_t channel, Letter& letter,
                   std::span<const std::byte> bytes) {
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
      letter.rest =
          post_send(letter.peer, bytes.subspan(eager), static_cast<int>(header.rest_tag));
  });
}

void Office::want(std::uint64_t channel, const std::shared_ptr<Letter>& letter) {
  const std::scoped_lock lock(mutex_);
  Lane& lane = lanes_[{channel, letter->peer}];
  if (lane.arrived.empty()) {
    lane.wanted.push_back(letter);
  } else {
    hand_over(*letter, lane.arrived.front().first, lane.arrived.front().second);
    lane.arrived.pop_front();
  }
}

void Office::await_frame(const Letter& letter, Clock::time_point deadline) {
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

void Office::await(const Work& work, int peer, Clock::time_point deadline) {
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

void Office::withdraw(std::uint64_t channel,
                      const std::vector<std::shared_ptr<Letter>>& letters) {
  const std::scoped_lock lock(mutex_);
  for (const auto& letter : letters)
    if (!letter->is_send) std::erase(lanes_[{channel, letter->peer}].wanted, letter);
}

void Office::fail(int peer, const std::string& sentence) {
  std::unique_lock lock(mutex_);
  if (!lost_) condemn(peer, sentence);
  give_up(lock, peer);
}

std::string Office::parting_of(int peer, const std::string& why) {
  return "rank " + std::to_string(peer) + " has gone" + (why.empty() ? "" : ": " + why);
}

std::string Office::silence_of(int peer) const {
  return "rank " + std::to_string(peer) + " has been silent for " +
         core::shortest(timeout_) + " s";
}

Work Office::post_send(int peer, std::span<const std::byte> bytes, int tag) {
  std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
  return backend_->send(tensors, peer, tag);
}

Work Office::post_receive(int peer, std::span<std::byte> bytes, int tag) {
  std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
  return backend_->recv(tensors, peer, tag);
}

void Office::offer_frames(int peer) {
  Desk& desk = desks_[at(peer)];
  guarded(peer, [&] {
    for (std::size_t i = 0; i < kFramesOnOffer; ++i) {
      desk.frames[i].resize(sizeof(Header) + kEager);
      desk.offers[i] = post_receive(peer, desk.frames[i], kFrameTag);
    }
  });
}

void Office::listen(int peer) {
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

void Office::read(int peer, const Bytes& frame) {
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

void Office::take(int peer, const Header& header, std::span<const std::byte> bytes) {
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

void Office::hand_over(Letter& letter, const Header& header,
                       std::span<const std::byte> bytes) {
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
int Office::behind(int peer) const {
  int culprit = peer;
  for (int hop = 0; hop < size_; ++hop) {
    const int next = suspects_[at(culprit)];
    if (next < 0 || next >= size_ || next == rank_) break;
    culprit = next;
  }
  return culprit;
}

void Office::condemn(int peer, std::string sentence, bool tell) {
  lost_ = {peer, std::move(sentence)};
  for (c10d::Work* work : waited_for_) wake(*work);
  changed_.notify_all();
  if (tell) tell_all({.kind = Kind::obituary, .lost = peer});
}

// Nobody waits for these to arrive: who does not get one finds out by itself.
void Office::tell_all(const Header& news) {
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
void Office::give_up(std::unique_lock<std::mutex>&, int peer) {
  if (!lost_) {
    const int culprit = first_gone_.value_or(peer);
    condemn(culprit, *gone_[at(culprit)]);
  }
  throw LinkError(lost_->peer, lost_->sentence);
}

}  // namespace topknot::c10d_link

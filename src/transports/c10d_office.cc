// SPDX-License-Identifier: Apache-2.0
#include "transports/c10d_office.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <list>

#include "core/text.h"
#include "topknot/error.h"

namespace topknot::c10d_link {
namespace {

using Kind = Header::Kind;

constexpr int kFrameTag = 0;
constexpr std::uint32_t kRestTags = 4096;  // from 1 on; more rests at once share tags
constexpr std::size_t kEager = std::size_t{64} << 10;
// Between a rank's end and the blame for it, for word of the cause to come first.
constexpr std::chrono::milliseconds kForTheCause{200};
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
    : hosts_(std::move(hosts)),
      group_(std::move(group)),
      backend_(group_->getBackend(c10::DeviceType::CPU)),
      rank_(backend_->getRank()),
      size_(backend_->getSize()),
      gone_(static_cast<std::size_t>(size_)),
      next_tag_(static_cast<std::size_t>(size_)),
      desks_(static_cast<std::size_t>(size_)),
      agreement_(rank_, size_, options.timeout,
                 {[this](int to, const Bytes& message) { post_control(to, message); },
                  [this] { wake_all(); }}) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) offer_frames(peer);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      desks_[at(peer)].listener = std::thread([this, peer] { listen(peer); });
  deadlines_ = std::thread([this] { keep_deadlines(); });
}

Office::~Office() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    if (!agreement_.failed())
      for (int peer = 0; peer < size_; ++peer)
        if (peer != rank_) post(peer, {.kind = Kind::goodbye}, {});
    for (Desk& desk : desks_)
      for (Work& work : desk.offers)
        if (work) wake(*work);
  }
  changed_.notify_all();
  deadlines_.join();
  for (Desk& desk : desks_)
    if (desk.listener.joinable()) desk.listener.join();
  leave_to_gloo();
}

// The group and its connections outlive the office. Where a message arrives for a receive
// whose memory is gone, Gloo's thread neither reads the message nor waits: it asks for it
// again and again and takes a whole core. So the memory stays until the process ends, as the
// group does.
void Office::leave_to_gloo() {
  struct Kept {
    std::vector<Desk> desks;
    std::deque<std::pair<Bytes, Work>> posted;
  };
  static std::mutex mutex;
  static auto& kept = *new std::list<Kept>;
  const std::scoped_lock lock(mutex);
  kept.push_back({std::move(desks_), std::move(posted_)});
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

void Office::await_frame(const Letter& letter) {
  std::unique_lock lock(mutex_);
  if (letter.matched) return;
  const FailureAgreement::Wait wait(agreement_, letter.peer);
  changed_.wait(lock, [&] {
    return letter.matched || agreement_.failed() || gone_[at(letter.peer)];
  });
  if (letter.matched) return;
  lock.unlock();
  lose(letter.peer, "");
}

void Office::await(const Work& work, int peer, int whom) {
  require_alive();
  {
    const std::scoped_lock lock(mutex_);
    waited_for_.insert(work.get());
  }
  bool done = false;
  std::string why;
  {
    const FailureAgreement::Wait wait(agreement_, whom);
    if (!agreement_.failed()) try {
        done = work->wait(kForEver);
      } catch (const std::exception& error) {
        why = reason_of(error);
      }
  }
  {
    const std::scoped_lock lock(mutex_);
    waited_for_.erase(work.get());
  }
  if (!done) lose(peer, parting_of(peer, why));
}

void Office::withdraw(std::uint64_t channel,
                      const std::vector<std::shared_ptr<Letter>>& letters) {
  const std::scoped_lock lock(mutex_);
  for (const auto& letter : letters) {
    if (!letter->is_send) {
      std::erase(lanes_[{channel, letter->peer}].wanted, letter);
      if (letter->rest) posted_.push_back({std::move(letter->bytes), letter->rest});
      continue;
    }
    // A frame that ended half way would end the connection; its memory is ours.
    if (letter->frame) posted_.push_back({std::move(letter->bytes), letter->frame});
    letter->rest.reset();
    letter->shared.reset();
  }
}

// The job ends for the cause that another rank has told of, else because of the rank that
// went first, whoever was being waited for.
void Office::lose(int peer, const std::string& sentence) {
  Failure failure{peer, sentence};
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kForTheCause, [&] { return agreement_.failed(); });
    const int first = first_gone_.value_or(peer);
    if (gone_[at(first)]) failure = {first, *gone_[at(first)]};
  }
  agreement_.fail(std::move(failure));
  agreement_.failure().raise();
}

std::string Office::parting_of(int peer, const std::string& why) {
  return "rank " + std::to_string(peer) + " has gone" + (why.empty() ? "" : ": " + why);
}

// Deadlines are missed by no more than the pause between two looks.
void Office::keep_deadlines() {
  constexpr auto pause = FailureAgreement::kAnswerTime / 10.0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [&] { return closing_; })) {
    lock.unlock();
    agreement_.check(Clock::now());
    lock.lock();
  }
}

void Office::post_control(int peer, const Bytes& message) {
  const std::scoped_lock lock(mutex_);
  post(peer, {.length = message.size(), .kind = Kind::control}, message);
}

void Office::wake_all() {
  const std::scoped_lock lock(mutex_);
  for (c10d::Work* work : waited_for_) wake(*work);
  changed_.notify_all();
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
      Bytes control;
      {
        const std::scoped_lock lock(mutex_);
        if (closing_ || !came) return;
        const Bytes& frame = desk.frames[i];
        Header header;
        std::memcpy(&header, frame.data(), sizeof(Header));
        if (header.kind == Kind::control) {
          const auto length =
              std::min<std::uint64_t>(header.length, FailureAgreement::kMostBytes);
          control.assign(
              frame.begin() + sizeof(Header),
              frame.begin() + static_cast<std::ptrdiff_t>(sizeof(Header) + length));
        } else {
          read(peer, header, frame);
        }
        desk.offers[i] = post_receive(peer, desk.frames[i], kFrameTag);
      }
      if (!control.empty()) agreement_.receive(peer, control);
    }
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    gone_[at(peer)] = parting_of(peer, reason_of(error));
    if (!first_gone_ && !desk.said_goodbye) first_gone_ = peer;
    changed_.notify_all();
  }
}

// ---- with the mutex held

void Office::read(int peer, const Header& header, const Bytes& frame) {
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
    const auto first = bytes.first(std::min(bytes.size(), letter.limit));
    letter.bytes.assign(first.begin(), first.end());
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

// Nobody waits for these to arrive: who does not get one finds out by itself.
void Office::post(int peer, const Header& header, std::span<const std::byte> bytes) {
  if (gone_[at(peer)]) return;
  posted_.push_back({framed(header, bytes), {}});
  try {
    posted_.back().second = post_send(peer, posted_.back().first, kFrameTag);
  } catch (const std::exception&) {
    gone_[at(peer)] = parting_of(peer, "");
  }
}

}  // namespace topknot::c10d_link

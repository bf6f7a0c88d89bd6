// SPDX-License-Identifier: Apache-2.0
#include "transports/flight_recorder.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/wire/wire.h"
#include "transports/forwarding_transport.h"

namespace topknot {
namespace {

using What = FlightRecord::What;
using Operation = FlightRecord::Operation;
static_assert(std::is_trivially_copyable_v<Operation>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Several messages that travel as one have their lengths before the first header.
std::optional<core::Stamp> stamp_in(std::span<const std::byte> message) {
  constexpr std::size_t kFarthest = 256;
  for (std::size_t head = 0; head <= std::min(message.size(), kFarthest); head += 8)
    if (const auto stamp = core::stamp_of(message.subspan(head))) return stamp;
  return std::nullopt;
}

class Recorded final : public ForwardingTransport {
 public:
  Recorded(Transport& link, FlightRecord& record)
      : ForwardingTransport(link), record_(record) {}
  Recorded(std::unique_ptr<Transport> link, FlightRecord& record)
      : ForwardingTransport(std::move(link)), record_(record) {}

  Pending send(int to, std::span<const std::byte> bytes) override {
    note(What::send, to, bytes);
    return expect(link().send(to, bytes), to, nullptr);
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    note(What::send, to, *bytes);
    return expect(link().send_shared(to, std::move(bytes)), to, nullptr);
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return expect(link().recv(from, into, limit), from, &into);
  }

  void wait(Pending message) override {
    const auto found = std::ranges::find(under_way_, message, &Expected::message);
    if (found == under_way_.end()) return link().wait(message);
    const Expected expected = *found;
    *found = under_way_.back();
    under_way_.pop_back();
    note(expected.into == nullptr ? What::wait_to_send : What::wait, expected.peer, {});
    link().wait(message);
    if (expected.into != nullptr) note(What::received, expected.peer, *expected.into);
  }

 private:
  struct Expected {
    Pending message;
    int peer;
    std::vector<std::byte>* into;  // of a message that is to come
  };

  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<Recorded>(std::move(channel), record_);
  }

  Pending expect(Pending message, int peer, std::vector<std::byte>* into) {
    under_way_.push_back({message, peer, into});
    return message;
  }

  // A wait is in the step and phase of the last message that this channel has seen.
  void note(What what, int peer, std::span<const std::byte> bytes) noexcept {
    if (const auto stamp = stamp_in(bytes)) {
      place_.step = stamp->step;
      place_.phase = stamp->phase & 0x7F;  // the highest bit tells words from values
      if (stamp->from == rank()) place_.fingerprint = stamp->fingerprint;
    }
    Operation operation = place_;
    operation.microseconds = FlightRecord::now();
    operation.bytes = bytes.size();
    operation.channel = channel_;
    operation.peer = peer;
    operation.what = what;
    record_.add(operation);
  }

  FlightRecord& record_;
  const std::uint32_t channel_ = record_.next_channel();
  Operation place_;
  std::vector<Expected> under_way_;
};

}  // namespace

std::uint64_t FlightRecord::now() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

// Each word is released behind the 0 and acquired before the number is read again, so a reader
// that has met a word of a later operation finds the number changed.
void FlightRecord::add(const Operation& operation) noexcept {
  const std::uint64_t number = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  Slot& slot = slots_[number % kLength];
  const auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(operation);
  slot.number.store(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kWords; ++i)
    slot.words[i].store(words[i], std::memory_order_release);
  slot.number.store(number, std::memory_order_release);
}

std::size_t FlightRecord::read(Operations& into) const noexcept {
  const std::uint64_t last = last_.load(std::memory_order_acquire);
  std::size_t count = 0;
  for (std::uint64_t number = last < kLength ? 1 : last - kLength + 1; number <= last;
       ++number) {
    const Slot& slot = slots_[number % kLength];
    if (slot.number.load(std::memory_order_acquire) != number) continue;
    std::array<std::uint64_t, kWords> words;
    for (std::size_t i = 0; i < kWords; ++i)
      words[i] = slot.words[i].load(std::memory_order_acquire);
    if (slot.number.load(std::memory_order_relaxed) != number) continue;
    into[count++] = std::bit_cast<Operation>(words);
  }
  return count;
}

std::unique_ptr<Transport> make_recorded(Transport& link, FlightRecord& record) {
  return std::make_unique<Recorded>(link, record);
}

}  // namespace topknot

// SPDX-License-Identifier: Apache-2.0
//
// metered: forwards everything to another channel and counts it.

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "topknot/error.h"
#include "topknot/transports.h"
#include "transports/forwarding_transport.h"

namespace topknot {
namespace {

void fit(Traffic& traffic, int ranks) {
  traffic.bytes_to.resize(static_cast<std::size_t>(ranks));
  traffic.messages_to.resize(static_cast<std::size_t>(ranks));
  traffic.wait_seconds_for.resize(static_cast<std::size_t>(ranks));
}

class Metered final : public ForwardingTransport {
 public:
  Metered(std::unique_ptr<Transport> link, std::shared_ptr<Traffic> traffic)
      : ForwardingTransport(std::move(link)), traffic_(std::move(traffic)) {}

  Pending send(int to, std::span<const std::byte> bytes) override {
    return remember(ForwardingTransport::send(to, bytes), to);
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    return remember(ForwardingTransport::send_shared(to, std::move(bytes)), to);
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return remember(ForwardingTransport::recv(from, into, limit), from);
  }

  void wait(Pending message) override {
    // Counts also when wait() throws: the time until a deadline was spent all the same.
    struct Stopwatch {
      Metered& meter;
      const int peer;
      const double start;
      ~Stopwatch() { meter.waited(peer, start); }
    };
    const Stopwatch stopwatch{*this, forget(message), now()};
    link().wait(message);
  }

  void spent(Phase phase, double seconds) noexcept override {
    link().spent(phase, seconds);
    (phase == Phase::encode ? traffic_->encode_seconds : traffic_->decode_seconds) +=
        seconds;
    keep({phase, -1, now() - seconds, seconds});
  }

  bool allreduce(std::span<float> x) override {
    if (!link().allreduce(x)) return false;
    // As a ring would: every rank passes on all but one P-th of the vector, twice.
    const auto ranks = static_cast<std::uint64_t>(size());
    const std::uint64_t bytes = 2 * x.size_bytes() * (ranks - 1) / ranks;
    count((rank() + 1) % size(), bytes, 2 * (ranks - 1));
    return true;
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<Metered>(std::move(channel), traffic_);
  }

  void on_sent(int to, std::span<const std::byte> bytes) override {
    count(to, bytes.size(), 1);
  }

  Pending remember(Pending message, int peer) {
    peers_.emplace(message, peer);
    return message;
  }

  int forget(Pending message) {
    const auto found = peers_.find(message);
    if (found == peers_.end())
      return rank();  // waited for twice: the channel will say so
    const int peer = found->second;
    peers_.erase(found);
    return peer;
  }

  void waited(int peer, double start) noexcept {
    const double seconds = now() - start;
    traffic_->wait_seconds += seconds;
    fit(*traffic_, size());  // the owner may have cleared it since
    traffic_->wait_seconds_for[static_cast<std::size_t>(peer)] += seconds;
    keep({Phase::wait, peer, start, seconds});
  }

  void keep(const PhaseSpan& span) noexcept {
    if (traffic_->keeps_spans) traffic_->spans.push_back(span);
  }

  void count(int to, std::uint64_t bytes, std::uint64_t messages) {
    fit(*traffic_, size());  // the owner may have cleared it since
    traffic_->bytes_to[to] += bytes;
    traffic_->messages_to[to] += messages;
  }

  std::shared_ptr<Traffic> traffic_;
  std::unordered_map<Pending, int> peers_;  // of the messages under way
};

std::uint64_t sum(const std::vector<std::uint64_t>& x) {
  return std::accumulate(x.begin(), x.end(), std::uint64_t{0});
}

}  // namespace

void Traffic::add(const Traffic& other) {
  const auto add_each = [](auto& mine, const auto& theirs) {
    mine.resize(std::max(mine.size(), theirs.size()));
    for (std::size_t i = 0; i < theirs.size(); ++i) mine[i] += theirs[i];
  };
  add_each(bytes_to, other.bytes_to);
  add_each(messages_to, other.messages_to);
  add_each(wait_seconds_for, other.wait_seconds_for);
  wait_seconds += other.wait_seconds;
  encode_seconds += other.encode_seconds;
  decode_seconds += other.decode_seconds;
}

std::uint64_t Traffic::bytes() const { return sum(bytes_to); }
std::uint64_t Traffic::messages() const { return sum(messages_to); }

std::unique_ptr<Transport> make_metered(std::unique_ptr<Transport> link,
                                        std::shared_ptr<Traffic> traffic) {
  if (!link || !traffic) {
    throw ContractError("a metered channel needs a channel and a Traffic to count into");
  }
  fit(*traffic, link->size());
  return std::make_unique<Metered>(std::move(link), std::move(traffic));
}

}  // namespace topknot

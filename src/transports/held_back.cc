// SPDX-License-Identifier: Apache-2.0
//
// A message carries the time of its arrival behind its bytes. The sender knows it: all ranks share
// one clock and one model of the ports. Whoever waits for the message waits until then.

#include "transports/held_back.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "topknot/error.h"
#include "transports/forwarding_transport.h"
#include "transports/network.h"

namespace topknot {
namespace {

/// The ports of all ranks, which their threads use in turn.
class SharedPorts {
 public:
  SharedPorts(const Network& network, int ranks)
      : network_(network), ports_(network, ranks) {}

  struct Passage {
    double left;     ///< when the sender's port is through with it
    double arrival;  ///< of the last byte
  };
  Passage send(int from, int to, std::size_t bytes, double now) {
    const std::scoped_lock lock(mutex_);
    const auto departure = ports_.send(from, to, bytes, now);
    const double last = departure.left + ports_.link(from, to).latency;
    return {departure.left,
            ports_.receive(from, to, bytes, departure.heard, from == to ? now : last)};
  }

  const LinkSpeed& speed() const { return network_.between; }

 private:
  const Network network_;
  std::mutex mutex_;
  transports::Ports ports_;
};

/// Sleeps until `time` of the clock that links go by.
void sleep_until(double time, double now) {
  // The kernel may wake a thread 50 us late unless told.
  static thread_local const int told = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  static_cast<void>(told);
  if (time > now) std::this_thread::sleep_for(std::chrono::duration<double>(time - now));
}

class HeldBack final : public ForwardingTransport {
 public:
  HeldBack(std::unique_ptr<Transport> link, std::shared_ptr<SharedPorts> ports)
      : ForwardingTransport(std::move(link)), ports_(std::move(ports)) {}

  Pending send(int to, std::span<const std::byte> bytes) override {
    return send_stamped(to, bytes);
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    return send_stamped(to, *bytes);
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    const Pending message = link().recv(from, into, limit + sizeof(double));
    receiving_.emplace_back(message, &into);
    return message;
  }

  void wait(Pending message) override {
    link().wait(message);
    const auto found = std::ranges::find(receiving_, message, &Receiving::first);
    if (found == receiving_.end()) return;
    std::vector<std::byte>& into = *found->second;
    *found = receiving_.back();
    receiving_.pop_back();
    double arrival = 0;
    if (into.size() < sizeof arrival)
      throw ContractError("A message that was held back has no time of arrival.");
    std::memcpy(&arrival, into.data() + into.size() - sizeof arrival, sizeof arrival);
    into.resize(into.size() - sizeof arrival);
    sleep_until(arrival, now());
  }

  bool allreduce(std::span<float> x) override {
    const double start = now();
    if (!link().allreduce(x)) return false;
    const double hops = 2.0 * (size() - 1);
    const LinkSpeed& speed = ports_->speed();
    const double bytes = static_cast<double>(x.size_bytes()) / size();
    sleep_until(start + hops * (speed.latency + bytes / speed.bandwidth), now());
    return true;
  }

 private:
  using Receiving = std::pair<Pending, std::vector<std::byte>*>;

  Pending send_stamped(int to, std::span<const std::byte> bytes) {
    const double arrival = ports_->send(rank(), to, bytes.size(), now()).arrival;
    auto stamped =
        std::make_shared<std::vector<std::byte>>(bytes.size() + sizeof arrival);
    std::ranges::copy(bytes, stamped->begin());
    std::memcpy(stamped->data() + bytes.size(), &arrival, sizeof arrival);
    return link().send_shared(to, std::move(stamped));
  }

  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<HeldBack>(std::move(channel), ports_);
  }

  std::shared_ptr<SharedPorts> ports_;
  std::vector<Receiving> receiving_;  // messages on their way
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_held_back(
    std::vector<std::unique_ptr<Transport>> links, const Network& network) {
  const auto ports =
      std::make_shared<SharedPorts>(network, static_cast<int>(links.size()));
  for (std::unique_ptr<Transport>& link : links)
    link = std::make_unique<HeldBack>(std::move(link), ports);
  return links;
}

}  // namespace topknot

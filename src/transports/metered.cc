// SPDX-License-Identifier: Apache-2.0
//
// metered: forwards everything to another channel and counts it.

#include <numeric>
#include <utility>

#include "topknot/error.h"
#include "topknot/transports.h"
#include "transports/forwarding_transport.h"

namespace topknot {
namespace {

void fit(Traffic& traffic, int ranks) {
  traffic.bytes_to.resize(static_cast<std::size_t>(ranks));
  traffic.messages_to.resize(static_cast<std::size_t>(ranks));
}

class Metered final : public ForwardingTransport {
 public:
  Metered(std::unique_ptr<Transport> link, std::shared_ptr<Traffic> traffic)
      : ForwardingTransport(std::move(link)), traffic_(std::move(traffic)) {}

  void wait(Pending message) override {
    // Counts also when wait() throws: the time until a deadline was spent all the same.
    struct Stopwatch {
      const Transport& clock;
      double& total;
      double start;
      ~Stopwatch() { total += clock.now() - start; }
    };
    const Stopwatch stopwatch{*this, traffic_->wait_seconds, now()};
    link().wait(message);
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

  void count(int to, std::uint64_t bytes, std::uint64_t messages) {
    fit(*traffic_, size());  // the owner may have cleared it since
    traffic_->bytes_to[to] += bytes;
    traffic_->messages_to[to] += messages;
  }

  std::shared_ptr<Traffic> traffic_;
};

std::uint64_t sum(const std::vector<std::uint64_t>& x) {
  return std::accumulate(x.begin(), x.end(), std::uint64_t{0});
}

}  // namespace

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

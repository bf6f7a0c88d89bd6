// SPDX-License-Identifier: Apache-2.0
//
// metered: passes everything on to another channel and counts it.

#include <numeric>
#include <utility>

#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot {
namespace {

void fit(Traffic& traffic, int ranks) {
  traffic.bytes_to.resize(static_cast<std::size_t>(ranks));
  traffic.messages_to.resize(static_cast<std::size_t>(ranks));
}

class Metered final : public Transport {
 public:
  Metered(std::unique_ptr<Transport> link, std::shared_ptr<Traffic> traffic)
      : link_(std::move(link)), traffic_(std::move(traffic)) {}

  int rank() const noexcept override { return link_->rank(); }
  int size() const noexcept override { return link_->size(); }

  Pending send(int to, std::span<const std::byte> bytes) override {
    const Pending message = link_->send(to, bytes);
    count(to, bytes.size(), 1);
    return message;
  }

  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    const std::size_t size = bytes->size();
    const Pending message = link_->send_shared(to, std::move(bytes));
    count(to, size, 1);
    return message;
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return link_->recv(from, into, limit);
  }

  void fail(const LinkError& cause) noexcept override { link_->fail(cause); }
  void abandon() noexcept override { link_->abandon(); }
  void wait(Pending message) override {
    // Counts also when wait() throws: the time until a deadline was spent all the same.
    struct Stopwatch {
      const Transport& clock;
      double& total;
      double start;
      ~Stopwatch() { total += clock.now() - start; }
    };
    const Stopwatch stopwatch{*link_, traffic_->wait_seconds, link_->now()};
    link_->wait(message);
  }

  bool allreduce(std::span<float> x) override {
    if (!link_->allreduce(x)) return false;
    // As a ring would: every rank passes on all but one P-th of the vector, twice.
    const auto ranks = static_cast<std::uint64_t>(size());
    const std::uint64_t bytes = 2 * x.size_bytes() * (ranks - 1) / ranks;
    count((rank() + 1) % size(), bytes, 2 * (ranks - 1));
    return true;
  }

  double now() const noexcept override { return link_->now(); }

  int node_of(int rank) const noexcept override { return link_->node_of(rank); }

  std::unique_ptr<Transport> channel(int id) override {
    return std::make_unique<Metered>(link_->channel(id), traffic_);
  }

 private:
  void count(int to, std::uint64_t bytes, std::uint64_t messages) {
    fit(*traffic_, size());  // it may have been set back to nothing since
    traffic_->bytes_to[to] += bytes;
    traffic_->messages_to[to] += messages;
  }

  std::unique_ptr<Transport> link_;
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

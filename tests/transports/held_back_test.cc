// SPDX-License-Identifier: Apache-2.0
#include "transports/held_back.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot {
namespace {

Network network(double bytes_a_second, double latency) {
  Network made;
  made.between = {.bandwidth = bytes_a_second, .latency = latency};
  return made;
}

void on_all(int ranks, const Network& between,
            const std::function<void(Transport&)>& rank_main) {
  auto links = make_held_back(make_inproc(ranks), between);
  std::vector<std::thread> threads;
  for (auto& link : links) threads.emplace_back([&] { rank_main(*link); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::byte> bytes_of(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i + static_cast<std::size_t>(seed)) % 251);
  return bytes;
}

// Lower bounds only, from the sender's start: how much later a thread begins or wakes is the
// machine's business. All ranks share one clock.
TEST(HeldBack, HoldsAMessageAsLongAsTheLinkTakes) {
  std::atomic<double> start = 0;
  on_all(2, network(1e6, 0.01), [&start](Transport& link) {
    const std::vector<std::byte> sent = bytes_of(20000, 1);
    if (link.rank() == 0) {
      start = link.now();
      return link.wait(link.send(1, sent));
    }
    std::vector<std::byte> got;
    link.wait(link.recv(0, got, sent.size()));
    EXPECT_EQ(got, sent);
    EXPECT_GE(link.now() - start, 0.01 + 20000 / 1e6);
  });
}

TEST(HeldBack, LetsMessagesOfOneSenderQueueAtItsPort) {
  std::atomic<double> start = 0;
  on_all(3, network(1e6, 0), [&start](Transport& link) {
    const std::vector<std::byte> sent = bytes_of(10000, 2);
    if (link.rank() == 0) {
      start = link.now();
      for (const int to : {1, 2}) link.wait(link.send(to, sent));
      return;
    }
    std::vector<std::byte> got;
    link.wait(link.recv(0, got, sent.size()));
    EXPECT_GE(link.now() - start, link.rank() * 10000 / 1e6);
  });
}

// The receiver's port has rested and would let it pass at once; the sender's has not.
TEST(HeldBack, HoldsTheLastByteForTheLatencyBehindAPortWhoseBurstIsSpent) {
  Network bursts = network(1e6, 0.02);
  bursts.between.burst = 20000;
  std::atomic<double> start = 0;
  on_all(3, bursts, [&start](Transport& link) {
    const std::vector<std::byte> sent = bytes_of(20000, 3);
    if (link.rank() == 0) {
      start = link.now();
      for (const int to : {1, 2}) link.wait(link.send(to, sent));
      return;
    }
    std::vector<std::byte> got;
    link.wait(link.recv(0, got, sent.size()));
    EXPECT_GE(link.now() - start, (link.rank() == 2 ? 20000 / 1e6 : 0) + 0.02);
  });
}

TEST(HeldBack, KeepsOrderBytesAndLimitsOnEveryChannel) {
  on_all(2, network(1e9, 1e-5), [](Transport& world) {
    const auto link = world.channel(3);
    const int peer = 1 - link->rank();
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000}}) {
      const std::vector<std::byte> sent = bytes_of(size, link->rank());
      std::vector<std::byte> got;
      const Pending in = link->recv(peer, got, size);
      const Pending out = link->send(peer, sent);
      link->wait(in);
      link->wait(out);
      EXPECT_EQ(got, bytes_of(size, peer));
    }
  });
  on_all(2, network(1e9, 0), [](Transport& link) {
    std::vector<std::byte> got;
    if (link.rank() == 0) {
      const std::vector<std::byte> sent = bytes_of(9, 0);
      try {
        link.wait(link.send(1, sent));
      } catch (const LinkError&) {  // the receiver has left
      }
    } else {
      EXPECT_ANY_THROW(link.wait(link.recv(0, got, 8)));
    }
  });
}

TEST(HeldBack, LeavesTheSumOfACollectiveAsItIs) {
  const auto sum_over = [](const Network* between) {
    std::vector<float> result;
    auto links = make_inproc(3);
    if (between != nullptr) links = make_held_back(std::move(links), *between);
    std::vector<std::thread> threads;
    for (auto& link : links)
      threads.emplace_back([&result, &link] {
        const Layout layout = Layout::flat(1000);
        const auto compressor = make_compressor(Spec::parse("topk"), layout);
        const auto knot =
            make_collective(Spec::parse("knot"), *link, *compressor, layout);
        std::vector<float> residual(1000), gradient(1000);
        for (std::size_t i = 0; i < 1000; ++i)
          gradient[i] = static_cast<float>(
              (i * 37 + 11U * static_cast<unsigned>(link->rank())) % 101);
        knot->reduce(residual, gradient, 50, gradient);
        if (link->rank() == 0) result = gradient;
      });
    for (std::thread& thread : threads) thread.join();
    return result;
  };
  const Network slow = network(1e8, 1e-4);
  EXPECT_EQ(sum_over(&slow), sum_over(nullptr));
}

TEST(HeldBack, TakesTheTimeOfARingForANativeSum) {
  on_all(2, network(1e6, 0.005), [](Transport& link) {
    std::vector<float> x(1000, 1.0F);
    const double start = link.now();
    if (!link.allreduce(x)) return;
    EXPECT_EQ(x[999], 2.0F);
    EXPECT_GE(link.now() - start, 2 * (0.005 + 0.002));
  });
}

}  // namespace
}  // namespace topknot

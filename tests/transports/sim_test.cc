// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/random.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/simulated.h"

namespace topknot::testing {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

// Numbers that can be told apart in a sum: 1000 bytes take 1 s.
constexpr double kLatency = 0.01;
constexpr double kOverhead = 0.0001;

SimulationOptions slow(int ranks_per_node = 1) {
  SimulationOptions options;
  options.network = {.between = {1000, kLatency, kOverhead, 0},
                     .inside = {1e6, 0.001, 0, 0},
                     .ranks_per_node = ranks_per_node};
  options.timeout = 100;
  return options;
}

void send(Transport& link, int to, std::size_t bytes) {
  const Bytes out(bytes);
  link.wait(link.send(to, out));
}

void receive(Transport& link, int from) {
  Bytes in;
  link.wait(link.recv(from, in, 1 << 20));
}

TEST(Sim, AMessageTakesOverheadLatencyAndItsBytes) {
  run_simulated(2, slow(), [](SimulatedTransport& link) {
    if (link.rank() == 0) {
      send(link, 1, 500);
      EXPECT_DOUBLE_EQ(link.now(), kOverhead + 0.5);
    } else {
      receive(link, 0);
      EXPECT_DOUBLE_EQ(link.now(), kOverhead + kLatency + 0.5);
    }
  });
}

TEST(Sim, ARankThatComesLateFindsTheMessageThere) {
  run_simulated(2, slow(), [](SimulatedTransport& link) {
    if (link.rank() == 0) return send(link, 1, 500);
    link.work(7);
    receive(link, 0);
    EXPECT_DOUBLE_EQ(link.now(), 7);
  });
}

TEST(Sim, RanksWorkAtTheSameTime) {
  run_simulated(3, slow(), [](SimulatedTransport& link) {
    link.work(1 + link.rank());
    if (link.rank() == 2) return send(link, 0, 0);
    if (link.rank() == 0) receive(link, 2);
    EXPECT_DOUBLE_EQ(link.now(), link.rank() == 0 ? 3 + kOverhead + kLatency : 2);
  });
}

/// When each of `ranks` is through with `seconds` of work on cores that they share.
std::vector<double> through(int ranks, const Cores& cores, double seconds) {
  SimulationOptions options = slow();
  options.cores = cores;
  std::vector<double> ends(static_cast<std::size_t>(ranks));
  run_simulated(ranks, options, [&](SimulatedTransport& link) {
    link.work(seconds);
    ends[static_cast<std::size_t>(link.rank())] = link.now();
  });
  std::ranges::sort(ends);
  return ends;
}

TEST(Sim, RanksThatShareCoresWorkInTurn) {
  EXPECT_EQ(through(4, {.count = 2, .slice = 5}, 1), (std::vector<double>{1, 1, 2, 2}));
  EXPECT_EQ(through(3, {.count = 1, .slice = 5}, 1), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(through(3, {.count = 3, .slice = 5}, 1), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(through(3, {.count = 0}, 1), (std::vector<double>{1, 1, 1}));
}

TEST(Sim, LongWorkOnSharedCoresIsSharedOutInSlices) {
  EXPECT_EQ(through(3, {.count = 1, .slice = 0.25}, 1),
            (std::vector<double>{2.5, 2.75, 3}));
  EXPECT_THROW(through(2, {.count = -1}, 1), ConfigError);
  EXPECT_THROW(through(2, {.count = 1, .slice = 0}, 1), ConfigError);
}

TEST(Sim, ARankThatWaitsForAMessageNeedsNoCore) {
  SimulationOptions options = slow();
  options.cores = {.count = 1, .slice = 5};
  run_simulated(2, options, [](SimulatedTransport& link) {
    if (link.rank() == 0) {
      link.work(3);
      return send(link, 1, 500);
    }
    receive(link, 0);
    EXPECT_DOUBLE_EQ(link.now(), 3 + kOverhead + kLatency + 0.5);
    link.work(1);
    EXPECT_DOUBLE_EQ(link.now(), 4 + kOverhead + kLatency + 0.5);
  });
}

TEST(Sim, ReceivesWhatWasSentInOrderOnEveryChannel) {
  run_simulated(3, slow(), [](SimulatedTransport& link) {
    const auto other = link.channel(4);
    const int next = (link.rank() + 1) % 3;
    const int last = (link.rank() + 2) % 3;
    for (int i = 0; i < 50; ++i) {
      const Bytes a = bytes_of("a" + std::to_string(i));
      const Bytes b = bytes_of("b" + std::to_string(i));
      Bytes in_a;
      Bytes in_b;
      const Pending sent_b = other->send(next, b);
      const Pending sent_a = link.send(next, a);
      const Pending got_a = link.recv(last, in_a, 16);
      other->wait(other->recv(last, in_b, 16));
      link.wait(got_a);
      link.wait(sent_a);
      other->wait(sent_b);
      EXPECT_EQ(in_a, a);
      EXPECT_EQ(in_b, b);
    }
  });
}

TEST(Sim, LetsARankTalkToItselfInNoTime) {
  run_simulated(1, slow(), [](SimulatedTransport& link) {
    const Bytes out = bytes_of("note to self");
    Bytes in;
    const Pending sent = link.send(0, out);
    link.wait(link.recv(0, in, 100));
    link.wait(sent);
    EXPECT_EQ(in, out);
    EXPECT_DOUBLE_EQ(link.now(), kOverhead);
  });
}

TEST(Sim, SendersToOneReceiverShareItsPort) {
  run_simulated(9, slow(), [](SimulatedTransport& link) {
    if (link.rank() > 0) {
      send(link, 0, 500);
      EXPECT_DOUBLE_EQ(link.now(), kOverhead + 0.5) << "the sender's own port is free";
      return;
    }
    for (int from = 1; from < 9; ++from) receive(link, from);
    EXPECT_DOUBLE_EQ(link.now(), kOverhead + kLatency + 8 * 0.5);
  });
}

TEST(Sim, ReceiversOfOneSenderShareItsPort) {
  run_simulated(4, slow(), [](SimulatedTransport& link) {
    if (link.rank() > 0) {
      receive(link, 0);
      EXPECT_NEAR(link.now(), link.rank() * 0.5 + kLatency, 3 * kOverhead);
      return;
    }
    const Bytes out(500);
    std::vector<Pending> sends;
    for (int to = 1; to < 4; ++to) sends.push_back(link.send(to, out));
    for (const Pending message : sends) link.wait(message);
    EXPECT_NEAR(link.now(), 1.5, 3 * kOverhead);
  });
}

TEST(Sim, RanksOfANodeShareItsPortAndAreFastAmongThemselves) {
  run_simulated(4, slow(2), [](SimulatedTransport& link) {
    EXPECT_EQ(link.node_of(1), link.node_of(0));
    EXPECT_NE(link.node_of(2), link.node_of(1));
    const int across = (link.rank() + 2) % 4;
    const int beside = link.rank() ^ 1;
    const Bytes out(500);
    const Pending far = link.send(across, out);
    receive(link, across);
    link.wait(far);
    EXPECT_GT(link.now(), 0.5 + kLatency);
    const Pending near = link.send(beside, out);
    receive(link, beside);
    link.wait(near);
    // Both messages of a node went through one port, and the later of the two has come.
    EXPECT_NEAR(link.now(), 1 + kLatency + 0.0015, 0.001);
  });
}

TEST(Sim, ABurstPassesAtOnceAndHasToBeRestedFor) {
  SimulationOptions options = slow();
  options.network.between.burst = 500;
  run_simulated(2, options, [](SimulatedTransport& link) {
    const auto took = [&](std::size_t bytes) {
      const double start = link.now();
      if (link.rank() == 0) {
        send(link, 1, bytes);
        receive(link, 1);
      } else {
        receive(link, 0);
        send(link, 0, 0);
      }
      return link.now() - start - 2 * (kLatency + kOverhead);
    };
    const double first = took(500);
    const double second = took(700);
    link.work(10);
    const double third = took(700);
    if (link.rank() == 1) return;
    EXPECT_NEAR(first, 0, 1e-9);
    EXPECT_NEAR(second, 0.7, 0.03) << "the bucket is empty";
    EXPECT_NEAR(third, 0.2, 1e-9);
  });
}

TEST(Sim, ADenseSumTakesWhatItsFileSays) {
  static constexpr int kRanks = 5;
  static constexpr std::size_t kSize = 50'000;
  run_simulated(kRanks, slow(), [&](SimulatedTransport& link) {
    const auto compressor = make_compressor(Spec::parse("topk"), Layout::flat(kSize));
    const auto dense =
        make_collective(Spec::parse("dense"), link, *compressor, Layout::flat(kSize));
    std::vector<float> x(kSize, 1.0F);
    EXPECT_EQ(dense->reduce({}, x, kSize, x).count, kSize);
    const double hops = 2 * (kRanks - 1);
    const double expected = hops * (kLatency + kOverhead + 4.0 * kSize / kRanks / 1000);
    EXPECT_NEAR(link.now(), expected, 0.01 * expected);
  });
}

// ---- what a collective does, it does here too

std::vector<float> sum_over(
    const std::function<void(int, const std::function<void(Transport&)>&)>& run_ranks,
    const std::string& collective) {
  constexpr std::size_t kSize = 3000;
  std::vector<float> of_rank_0;
  run_ranks(5, [&](Transport& link) {
    const Layout layout = Layout::flat(kSize);
    const auto compressor =
        make_compressor(Spec::parse(default_compressor(collective)), layout);
    const auto made = make_collective(Spec::parse(collective), link, *compressor, layout);
    std::vector<float> residual(kSize);
    std::vector<float> sum(kSize);
    for (int step = 0; step < 3; ++step) {
      core::Random random(static_cast<std::uint64_t>(step * 64 + link.rank()));
      std::vector<float> grad(kSize);
      for (float& x : grad) x = random.laplace();
      std::ranges::fill(sum, 0.0F);
      made->reduce(residual, grad, 60, sum);
    }
    if (link.rank() == 0) of_rank_0 = sum;
  });
  return of_rank_0;
}

TEST(Sim, EveryCollectiveGivesTheBitsThatItGivesOnThreads) {
  for (const CollectiveEntry& entry : collectives()) {
    const std::string name(entry.name);
    SCOPED_TRACE(name);
    const auto simulated = [](int ranks,
                              const std::function<void(Transport&)>& rank_main) {
      run_simulated(ranks, slow(), [&](SimulatedTransport& link) { rank_main(link); });
    };
    const auto threads = [](int ranks, const std::function<void(Transport&)>& rank_main) {
      run(ranks, rank_main);
    };
    EXPECT_EQ(sum_over(simulated, name), sum_over(threads, name));
  }
}

// ---- the same run again

/// The messages of a step of knot, and the end of every rank.
std::string history(std::uint64_t seed) {
  SimulationOptions options = slow();
  options.seed = seed;
  std::string events;
  options.on_message = [&](const SimulatedMessage& m) {
    events += std::to_string(m.from) + ">" + std::to_string(m.to) + " " +
              std::to_string(m.bytes) + "B at " + std::to_string(m.time) + "\n";
  };
  std::vector<double> ends(8);
  run_simulated(8, options, [&](SimulatedTransport& link) {
    const auto compressor = make_compressor(Spec::parse("topk"), Layout::flat(1000));
    const auto knot =
        make_collective(Spec::parse("knot"), link, *compressor, Layout::flat(1000));
    core::Random random(static_cast<std::uint64_t>(link.rank()));
    std::vector<float> residual(1000);
    std::vector<float> grad(1000);
    for (float& x : grad) x = random.laplace();
    knot->reduce(residual, grad, 50, grad);
    ends[static_cast<std::size_t>(link.rank())] = link.now();
  });
  for (const double end : ends) events += std::to_string(end) + "\n";
  return events;
}

TEST(Sim, ASeedRepeatsARunToTheLastMessage) {
  EXPECT_EQ(history(3), history(3));
  EXPECT_NE(history(3), history(4)) << "another seed draws another order of equals";
}

TEST(Sim, TheSeedDecidesWhoIsFirstAtAPort) {
  std::vector<int> firsts;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimulationOptions options = slow();
    options.seed = seed;
    int first = -1;
    options.on_message = [&](const SimulatedMessage& m) {
      if (first < 0) first = m.from;
    };
    run_simulated(3, options, [](SimulatedTransport& link) {
      if (link.rank() > 0) return send(link, 0, 10);
      receive(link, 1);
      receive(link, 2);
    });
    firsts.push_back(first);
  }
  EXPECT_GT(std::ranges::count(firsts, 1), 2);
  EXPECT_GT(std::ranges::count(firsts, 2), 2);
}

TEST(Sim, HoldsAThousandRanks) {
#ifdef TOPKNOT_SANITIZED
  constexpr int kRanks = 64;
#else
  constexpr int kRanks = 1024;
#endif
  std::vector<int> got(kRanks);
  run_simulated(kRanks, slow(), [&](SimulatedTransport& link) {
    const auto own = static_cast<std::size_t>(link.rank());
    const Bytes out(4);
    for (int hop = 1; hop < kRanks; hop *= 2) {
      const Pending sent = link.send((link.rank() + hop) % kRanks, out);
      receive(link, (link.rank() + kRanks - hop) % kRanks);
      link.wait(sent);
      ++got[own];
    }
  });
  EXPECT_EQ(std::ranges::count(got, kRanks == 64 ? 6 : 10), kRanks);
}

// ---- what goes wrong

TEST(Sim, AMessageCanBeDelayedAndNoneOvertakesIt) {
  SimulationOptions options = slow();
  int count = 0;
  options.on_message = [&](SimulatedMessage& m) { m.delay = count++ == 0 ? 5 : 0; };
  run_simulated(2, options, [](SimulatedTransport& link) {
    if (link.rank() == 0) {
      send(link, 1, 100);
      send(link, 1, 200);
      return;
    }
    Bytes first;
    Bytes second;
    const Pending a = link.recv(0, first, 1000);
    link.wait(link.recv(0, second, 1000));
    EXPECT_GE(link.now(), 5);
    link.wait(a);
    EXPECT_EQ(first.size(), 100);
    EXPECT_EQ(second.size(), 200);
  });
}

TEST(Sim, ALostMessageEndsTheJobAtTheDeadlineAndNamesItsSender) {
  SimulationOptions options = slow();
  options.on_message = [](SimulatedMessage& m) { m.lost = m.from == 2; };
  std::vector<std::string> causes(4);
  run_simulated(4, options, [&](SimulatedTransport& link) {
    const Bytes out(10);
    try {
      const Pending sent = link.send((link.rank() + 1) % 4, out);
      receive(link, (link.rank() + 3) % 4);
      link.wait(sent);
      receive(link, (link.rank() + 3) % 4);
    } catch (const LinkError& error) {
      causes[static_cast<std::size_t>(link.rank())] = error.what();
      EXPECT_NEAR(link.now(), 100, 1);
    }
  });
  for (const std::string& cause : causes) EXPECT_EQ(cause, causes[0]);
  EXPECT_NE(causes[0], "");
}

TEST(Sim, ARankThatWorksTooLongIsTheOneThatIsNamed) {
  run_simulated(3, slow(), [](SimulatedTransport& link) {
    if (link.rank() == 1) return link.work(1000);
    try {
      receive(link, link.rank() == 0 ? 1 : 0);
      FAIL() << "nothing was sent";
    } catch (const LinkError& error) {
      EXPECT_EQ(error.peer(), 1);
    }
  });
}

TEST(Sim, ThrowsWhatARankThrewAndNotWhatThatCaused) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SimulationOptions options = slow();
    options.seed = seed;
    const auto job = [&] {
      run_simulated(4, options, [](SimulatedTransport& link) {
        if (link.rank() == 2) throw ConfigError("two cannot");
        receive(link, 2);
      });
    };
    EXPECT_EQ(refusal<ConfigError>(job), "two cannot");
  }
}

TEST(Sim, RanksThatWaitForEachOtherEnd) {
  const auto job = [] {
    run_simulated(2, slow(),
                  [](SimulatedTransport& link) { receive(link, 1 - link.rank()); });
  };
  EXPECT_NE(refusal<LinkError>(job).find("wait for each other"), std::string::npos);
}

TEST(Sim, AMessageOverTheLimitIsRefusedWithItsFirstBytes) {
  run_simulated(2, slow(), [](SimulatedTransport& link) {
    if (link.rank() == 0) return send(link, 1, 100);
    Bytes in;
    const Pending message = link.recv(0, in, 60);
    EXPECT_THROW(link.wait(message), OverlongError);
    EXPECT_EQ(in.size(), 60);
  });
}

TEST(Sim, RefusesWhatCannotBe) {
  const auto nothing = [](SimulatedTransport&) {};
  SimulationOptions options = slow();
  EXPECT_THROW(run_simulated(0, options, nothing), ConfigError);
  options.network.between.bandwidth = 0;
  EXPECT_THROW(run_simulated(2, options, nothing), ConfigError);
  options = slow(0);
  EXPECT_THROW(run_simulated(2, options, nothing), ConfigError);
  options = slow();
  options.timeout = 0;
  EXPECT_THROW(run_simulated(2, options, nothing), ConfigError);
  EXPECT_NE(refusal<ConfigError>([] { find_network("10gb"); }).find("10gbe"),
            std::string::npos);
}

}  // namespace
}  // namespace topknot::testing

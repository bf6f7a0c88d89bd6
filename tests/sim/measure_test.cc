// SPDX-License-Identifier: Apache-2.0
#include "sim/measure.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "topknot/simulated.h"
#include "topknot/transports.h"

namespace topknot::sim {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kCoordinates = 1000;

SimulationOptions quiet_network() {
  SimulationOptions options;
  options.network.between = {.bandwidth = 1e6, .latency = 0.01, .overhead = 0.001};
  return options;
}

/// What each rank found where rank r's processor has had `ticks[r]` seconds more at each look.
std::vector<Calibration> measured(const std::array<double, kRanks>& ticks,
                                  const std::vector<Candidate>& candidates) {
  std::vector<Calibration> all(kRanks);
  run_simulated(kRanks, quiet_network(), [&](SimulatedTransport& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    double had = 0;
    all[rank] = measure(
        link, candidates, kCoordinates, [] {},
        [&] {
          had += ticks[rank];
          return had;
        });
  });
  return all;
}

TEST(Measure, TheSlowestRanksWorkCountsAndAllRanksGetTheSame) {
  const std::vector<Candidate> dense = {Candidate::of("dense", 1)};
  const double even = measured({1, 1, 1}, dense)[0].rates("dense").per_byte;
  EXPECT_GT(even, 0);
  for (const auto& ticks : {std::array{1.0, 1.0, 3.0}, std::array{3.0, 1.0, 1.0}})
    for (const Calibration& one : measured(ticks, dense))
      EXPECT_NEAR(one.rates("dense").per_byte, 3 * even, 1e-9 * even);
}

// A rank looks at its processor once before each message and once after it, and these ticks are the
// messages'. With nothing else to do there are as many ticks between as there are messages, and one.
TEST(Measure, TimeThatGoesIntoMessagesIsNotWork) {
  const Calibration found = measured({1, 1, 1}, {Candidate::of("dense", 1)})[0];
  // Reduce-scatter and allgather: 4 messages out and 4 in, each of which is waited for.
  constexpr double kMessages = 4 + 2 * 4;
  const double bytes = 4 * (kCoordinates / 3.0 * 4);
  EXPECT_NEAR(found.rates("dense").per_byte * bytes, kMessages + 1, 1.2);
}

TEST(Measure, TheNetworkIsThatBetweenTheRanks) {
  const LinkSpeed link = measured({1, 1, 1}, {})[0].link;
  EXPECT_NEAR(link.bandwidth, 1e6, 1e4);
  EXPECT_NEAR(link.latency, 0.01, 0.001);
}

TEST(Measure, RanksOfOneMachineShareItsCoresWhereTheyOutnumberThem) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  SimulationOptions options = quiet_network();
  for (const int ranks : {cores, cores + 1})
    run_simulated(ranks, options, [&](SimulatedTransport& link) {
      const Calibration found = measure(link, {}, kCoordinates, [] {});
      EXPECT_EQ(found.cores.count, ranks > cores ? cores : 0);
    });
}

TEST(Measure, AThreadThatSleepsHasNoProcessor) {
  const ProcessorClock clock = thread_clock();
  const double before = clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double asleep = clock() - before;
  EXPECT_GE(asleep, 0);
  EXPECT_LT(asleep, 0.02);
}

}  // namespace
}  // namespace topknot::sim

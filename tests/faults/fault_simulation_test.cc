// SPDX-License-Identifier: Apache-2.0
//
// Jobs on a simulated network, one for each seed, in which something goes wrong: FaultPlan says
// what, and Trial what must hold all the same.
//
// TOPKNOT_SEED=N replays one seed. TOPKNOT_SOAK_SECONDS=S goes on with new seeds for so long.
// TOPKNOT_RANKS=P makes all jobs so large. TOPKNOT_MOST_RANKS=P kills at every call in jobs of up to P.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "faults/fault_trial.h"

namespace topknot::testing {
namespace {

#ifdef TOPKNOT_SANITIZED
constexpr std::uint64_t kSeeds = 200;
constexpr int kMostRanks = 2;
#else
constexpr std::uint64_t kSeeds = 2000;
constexpr int kMostRanks = 4;
#endif

/// What was done over all seeds.
struct Figures {
  std::map<std::string, std::array<std::uint64_t, 3>> by_kind;  // runs, injected, failed
  std::uint64_t resumed = 0;

  void note(const Trial& trial) {
    resumed += trial.resumed() ? 1 : 0;
    auto& [runs, injected, failed] =
        by_kind[std::string(kFaultNames[static_cast<std::size_t>(trial.plan().kind)])];
    ++runs;
    injected += trial.state().injected > 0 ? 1 : 0;
    failed += trial.failed() ? 1 : 0;
  }
  void print() const {
    for (const auto& [kind, counts] : by_kind)
      std::cout << kind << ": " << counts[0] << " runs, " << counts[1]
                << " with a fault, " << counts[2] << " ended by it\n";
    std::cout << resumed << " checkpoints loaded after it\n";
  }
};

std::uint64_t number_in(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

bool run_seed(std::uint64_t seed, Figures& figures) {
  const std::uint64_t ranks = number_in("TOPKNOT_RANKS", 0);
  Trial trial(FaultPlan::of(seed, static_cast<int>(ranks)));
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + trial.plan().str() +
               "; replay: TOPKNOT_SEED=" + std::to_string(seed) +
               (ranks > 0 ? " TOPKNOT_RANKS=" + std::to_string(ranks) : "") +
               " build/release/tests/fault_simulation_test");
  trial.run();
  trial.expect_all();
  figures.note(trial);
  return !::testing::Test::HasFailure();
}

TEST(FaultSimulation, HoldsEveryPromiseForEverySeed) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const std::uint64_t one = number_in("TOPKNOT_SEED", kNone);
  const std::uint64_t soak = number_in("TOPKNOT_SOAK_SECONDS", 0);
  Figures figures;
  if (one != kNone) {
    run_seed(one, figures);
    return figures.print();
  }
  const auto end = Clock::now() + std::chrono::seconds(soak);
  std::uint64_t seed = 0;
  while ((soak > 0 ? Clock::now() < end : seed < kSeeds) && run_seed(seed, figures))
    ++seed;
  std::cout << seed << " seeds\n";
  figures.print();
}

// Before each of the calls that each rank makes: sends, receives and waits, those of a checkpoint
// among them.
TEST(FaultSimulation, HoldsEveryPromiseWhereverARankIsKilled) {
  const auto most = static_cast<int>(number_in("TOPKNOT_MOST_RANKS", kMostRanks));
  std::uint64_t kills = 0;
  for (int ranks = 2; ranks <= most; ++ranks)
    for (const std::string& collective : all_collectives(ranks))
      for (int victim = 0; victim < ranks; ++victim)
        for (std::uint64_t call = 0;; ++call) {
          FaultPlan plan = FaultPlan::of(call);
          plan.ranks = ranks;
          plan.collective = collective;
          plan.kind = FaultKind::kill;
          plan.victim = victim;
          plan.call = call;
          plan.saves = true;
          plan.steps = 1;
          Trial trial(plan);
          SCOPED_TRACE(plan.str());
          trial.run();
          trial.expect_all();
          if (::testing::Test::HasFailure()) return;
          if (trial.state().injected == 0) break;
          ++kills;
        }
  std::cout << kills << " kills\n";
}

TEST(FaultSimulation, RepeatsASeedToTheLastBit) {
  for (const std::uint64_t seed : {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}) {
    Trial first(seed);
    Trial second(seed);
    first.run();
    second.run();
    EXPECT_EQ(first.hash(), second.hash()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace topknot::testing

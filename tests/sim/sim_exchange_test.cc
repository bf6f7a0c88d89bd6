// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/wire/wire.h"
#include "topknot/error.h"

namespace topknot::sim {
namespace {

// Long enough that the headers of messages are a small share of the bytes.
constexpr double kCoordinates = 1 << 16;

Exchange exchange(const std::string& scheme, int ranks, double density = 0.01) {
  Exchange made;
  made.recipe = engine::Recipe::of(scheme);
  made.ranks = ranks;
  made.coordinates = kCoordinates;
  made.density = density;
  made.network.between = line_speed(0.1, 20e-6, 1e-6);
  made.rates = {1e-9, 2e-9};
  return made;
}

double seconds(const Exchange& asked, const Settings& settings = {}) {
  return simulate(asked, settings).seconds;
}

/// How far the closed form is from the virtual clock.
double difference(const Exchange& asked) {
  const double simulated = seconds(asked);
  return std::abs(closed_form(asked).value().seconds - simulated) / simulated;
}

TEST(Exchange, ADenseSumTakesItsClosedForm) {
  for (const int ranks : {2, 4, 8, 13})
    EXPECT_LT(difference(exchange("dense", ranks)), 0.05);
  Exchange with_nothing_else = exchange("dense", 4);
  with_nothing_else.rates = {};
  with_nothing_else.network.between = {.bandwidth = 1e6, .latency = 0.01};
  const double message = core::kHeaderBytes + kCoordinates;  // a quarter, in f32
  EXPECT_NEAR(seconds(with_nothing_else), 6 * (0.01 + message / 1e6), 1e-9);
}

TEST(Exchange, WhatIsExactInClosedFormIsExactOnTheClock) {
  for (const char* scheme : {"dense-bf16", "topka", "gtopk"})
    for (const int ranks : {2, 8, 16}) {
      SCOPED_TRACE(std::string(scheme) + " on " + std::to_string(ranks));
      EXPECT_LT(difference(exchange(scheme, ranks)), 0.05);
    }
}

TEST(Exchange, EverySchemeIsNearItsClosedForm) {
  for (const Scheme& scheme : schemes()) {
    const std::string name(scheme.name);
    SCOPED_TRACE(name);
    // redsync stops its search between k and 2k, and what the ranks agree on by counters
    // weighs more the shorter the vector is.
    Exchange asked = exchange(name, 8);
    asked.coordinates = 4 * kCoordinates;
    EXPECT_LT(difference(asked), name == "redsync" ? 1 : 0.3);
  }
}

TEST(Exchange, ParametersOfACollectiveCount) {
  Exchange half = exchange("topka", 4);
  half.recipe.collective = Spec::parse("topka:values=bf16");
  EXPECT_LT(simulate(half, {}).bytes, 0.8 * simulate(exchange("topka", 4), {}).bytes);
  EXPECT_LT(closed_form(half)->bytes, 0.8 * closed_form(exchange("topka", 4))->bytes);
}

TEST(Exchange, ASeedRepeatsIt) {
  const Exchange asked = exchange("knot", 5);
  EXPECT_EQ(seconds(asked), seconds(asked));
}

TEST(Exchange, AShorterVectorOnASlowerNetworkTakesAsLong) {
  const Settings shorter{.most_coordinates = kCoordinates};  // a quarter on each rank
  for (const char* scheme : {"dense", "topka", "gtopk"}) {
    SCOPED_TRACE(scheme);
    const Exchange asked = exchange(scheme, 4);
    EXPECT_NEAR(seconds(asked, shorter), seconds(asked), 0.05 * seconds(asked));
  }
}

TEST(Exchange, WorkIsCharged) {
  Exchange asked = exchange("topka", 4);
  const double before = seconds(asked);
  asked.rates.per_coordinate += 1e-6;
  EXPECT_NEAR(seconds(asked), before + 1e-6 * kCoordinates, 1e-9);
  const double bytes = simulate(asked, {}).bytes;
  const double later = seconds(asked);
  asked.rates.per_byte += 1e-6;
  EXPECT_NEAR(seconds(asked), later + 1e-6 * bytes, 0.01 * bytes * 1e-6);
}

TEST(Exchange, RanksThatShareCoresTakeLongerOnTheClockAndInClosedForm) {
  for (const char* scheme : {"dense", "topka", "gtopk", "knot"}) {
    SCOPED_TRACE(scheme);
    Exchange asked = exchange(scheme, 8);
    asked.rates = {50e-9, 20e-9};
    const double alone = seconds(asked);
    asked.cores.count = 8;
    EXPECT_NEAR(seconds(asked), alone, 0.01 * alone);
    asked.cores.count = 2;
    EXPECT_GT(seconds(asked), alone + 2 * kCoordinates * asked.rates.per_coordinate);
    EXPECT_LT(difference(asked), std::string(scheme) == "knot" ? 0.3 : 0.2);
  }
}

// ---- the orders of the papers

TEST(Exchange, TopkAIsOvertakenByGTopkAndOkTopkAsRanksGrow) {
  const auto closed = [](const char* scheme, int ranks) {
    Exchange asked = exchange(scheme, ranks);
    asked.coordinates = 110e6;
    asked.network.between = line_speed(10, 20e-6, 1e-6);
    return *closed_form(asked);
  };
  EXPECT_LT(closed("topka", 2).seconds, 1.1 * closed("gtopk", 2).seconds);
  for (const char* better : {"gtopk", "oktopk", "spardl", "knot"}) {
    SCOPED_TRACE(better);
    EXPECT_GT(closed("topka", 64).seconds, 2 * closed(better, 64).seconds);
  }
  EXPECT_NEAR(closed("oktopk", 1024).bytes, closed("oktopk", 32).bytes,
              0.2 * closed("oktopk", 32).bytes);
  EXPECT_GT(closed("topka", 1024).bytes, 25 * closed("topka", 32).bytes);
}

TEST(Exchange, IncastIsSeenInTheScheduleThatHasIt) {
  // All hand their selections to rank 0's side of the tree, which merges alone.
  Exchange tree = exchange("gtopk", 16);
  tree.recipe.collective = Spec::parse("gtopk:schedule=tree");
  EXPECT_GT(seconds(tree), 1.5 * seconds(exchange("gtopk", 16)));
}

TEST(Exchange, RefusesNodesInClosedForm) {
  Exchange asked = exchange("knot", 8);
  asked.network.ranks_per_node = 4;
  EXPECT_THROW(closed_form(asked), ConfigError);
}

// ---- personalities

TEST(Personality, NcclPadsWhatIsSelectedAndLaunchesEveryMessage) {
  const Personality nccl = Personality::find("nccl");
  EXPECT_EQ(nccl.carried(1), 512);
  EXPECT_EQ(nccl.carried(512), 512);
  EXPECT_EQ(nccl.carried(1000), 1024);
  EXPECT_EQ(nccl.carried(1024), 1024);
  EXPECT_EQ(nccl.carried(1025), 2048);
  EXPECT_EQ(nccl.of_known_lengths().carried(1025), 1025);
  Exchange asked = exchange("oktopk", 4);
  const ExchangeTime mpi = simulate(asked, {});
  asked.personality = nccl;
  const ExchangeTime padded = simulate(asked, {});
  EXPECT_GT(padded.bytes, 1.05 * mpi.bytes);
  EXPECT_LE(padded.bytes, 2.2 * mpi.bytes);
  EXPECT_GT(padded.seconds, mpi.seconds + 10e-6 * mpi.messages / 2);
  EXPECT_EQ(padded.messages, mpi.messages);
}

TEST(Personality, NcclsDenseSumIsOneLaunchAndNvshmemsPutsCostLess) {
  Exchange dense = exchange("dense", 4);
  const double two_sided = seconds(dense);
  dense.personality = Personality::find("nccl");
  EXPECT_NEAR(seconds(dense), two_sided + 10e-6, 1e-9);
  EXPECT_NEAR(closed_form(dense)->seconds, seconds(dense), 0.05 * two_sided);

  Exchange sparse = exchange("topka", 4);
  sparse.network.between.overhead = 5e-6;
  const ExchangeTime sent = simulate(sparse, {});
  sparse.personality = Personality::find("nvshmem");
  const ExchangeTime put = simulate(sparse, {});
  EXPECT_LT(put.seconds, sent.seconds);
  EXPECT_NEAR(put.bytes, sent.bytes + 8 * sent.messages, 1);
  EXPECT_THROW(Personality::find("gloo"), ConfigError);
}

TEST(Personality, TheClosedFormFollows) {
  for (const char* name : {"mpi", "nccl", "nvshmem"})
    for (const char* scheme : {"dense", "topka", "gtopk"}) {
      SCOPED_TRACE(std::string(name) + " " + scheme);
      Exchange asked = exchange(scheme, 8);
      asked.personality = Personality::find(name);
      EXPECT_LT(difference(asked), 0.06);
    }
}

TEST(Exchange, NodesWithFastLinksInsideAreFaster) {
  Exchange asked = exchange("dense", 8);
  const double apart = seconds(asked);
  asked.network.ranks_per_node = 4;
  asked.network.inside = {.bandwidth = 10e9, .latency = 1e-6};
  // In a ring one message of four crosses between nodes, and it has the port to itself.
  EXPECT_LT(seconds(asked), 1.01 * apart);
}

}  // namespace
}  // namespace topknot::sim

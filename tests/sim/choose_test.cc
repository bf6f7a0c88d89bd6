// SPDX-License-Identifier: Apache-2.0
#include "sim/choose.h"

#include <gtest/gtest.h>

#include <mutex>

#include "topknot/simulated.h"

namespace topknot::sim {
namespace {

std::vector<bool> sparse_of(const Choice& choice) {
  std::vector<bool> all;
  for (const ChosenBucket& bucket : choice.buckets) all.push_back(bucket.sparse);
  return all;
}

TEST(Decide, TakesDenseWhereSparseGainsLessThanIsWorthwhile) {
  const Choice choice =
      decide({{.coordinates = 100, .dense_seconds = 1.04, .sparse_seconds = 1}}, 0, 1);
  EXPECT_FALSE(choice.any_sparse());
  EXPECT_EQ(choice.step, choice.dense_step);
  EXPECT_TRUE(
      decide({{.coordinates = 100, .dense_seconds = 1.06, .sparse_seconds = 1}}, 0, 1)
          .any_sparse());
}

TEST(Decide, IsNeverSlowerThanDense) {
  for (const double sparse : {0.1, 0.9, 1.0, 3.0})
    for (const double compute : {0.0, 0.5, 10.0}) {
      const Choice choice =
          decide({{.coordinates = 100, .dense_seconds = 1, .sparse_seconds = sparse},
                  {.coordinates = 900, .dense_seconds = 2, .sparse_seconds = 0.2}},
                 compute, 1);
      EXPECT_LE(choice.step, choice.dense_step);
    }
}

TEST(Decide, SendsTheBucketsWholeForWhichSparseIsSlower) {
  const Choice choice =
      decide({{.coordinates = 900, .dense_seconds = 2, .sparse_seconds = 0.5},
              {.coordinates = 100, .dense_seconds = 0.1, .sparse_seconds = 0.4}},
             0, 1);
  EXPECT_EQ(sparse_of(choice), (std::vector<bool>{true, false}));
  EXPECT_DOUBLE_EQ(choice.step, 0.6);
  EXPECT_DOUBLE_EQ(choice.dense_step, 2.1);
}

// The first bucket is ready after (1 + 2/10) / 3 of 10 seconds, and dense has 6 until the last is.
TEST(Decide, SendsWholeWhatComputeHides) {
  const Choice choice =
      decide({{.coordinates = 100, .dense_seconds = 5, .sparse_seconds = 1},
              {.coordinates = 900, .dense_seconds = 5, .sparse_seconds = 1}},
             10, 1);
  EXPECT_EQ(sparse_of(choice), (std::vector<bool>{false, true}));
  EXPECT_DOUBLE_EQ(choice.step, 11);
}

TEST(Decide, LeavesBucketsWholeThatTheRulesSendWhole) {
  const Choice choice = decide(
      {{.coordinates = 100, .dense_seconds = 1, .sparse_seconds = 0.1},
       {.coordinates = 100, .whole = true, .dense_seconds = 1, .sparse_seconds = 0.1}},
      0, 1);
  EXPECT_EQ(sparse_of(choice), (std::vector<bool>{true, false}));
}

TEST(Decide, SharesRoundsOutOverTheirStepsAndTakesAllBucketsOrNone) {
  const std::vector<ChosenBucket> buckets{
      {.coordinates = 900, .dense_seconds = 1, .sparse_seconds = 1.2},
      {.coordinates = 100, .dense_seconds = 1, .sparse_seconds = 0.8}};
  const Choice rounds = decide(buckets, 0, 4);
  EXPECT_EQ(sparse_of(rounds), (std::vector<bool>{true, true}));
  EXPECT_DOUBLE_EQ(rounds.step, 0.5);
  const Choice hidden = decide(buckets, 100, 4);
  EXPECT_EQ(sparse_of(hidden), (std::vector<bool>{false, false}))
      << "what compute hides gains nothing by rounds";
}

/// By `ranks` ranks over a simulated network, each with a compute of its own.
std::vector<Choice> choose_on(int ranks, double bandwidth, double latency) {
  SimulationOptions options;
  options.network.between = {.bandwidth = bandwidth, .latency = latency};
  std::vector<Choice> all(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run_simulated(ranks, options, [&](SimulatedTransport& link) {
    const Choice mine =
        choose(link, 7, {.recipe = engine::Recipe::of("knot"), .density = 0.01},
               {{.coordinates = 40'000},
                {.coordinates = 300},
                {.coordinates = 20, .whole = true}},
               1e-6 * link.rank());
    const std::scoped_lock lock(mutex);
    all[static_cast<std::size_t>(link.rank())] = mine;
  });
  return all;
}

TEST(Choose, AllRanksGetTheSameBits) {
  for (const int ranks : {2, 3, 5}) {
    const std::vector<Choice> all = choose_on(ranks, 1e8, 1e-5);
    for (const Choice& one : all) {
      EXPECT_EQ(one.compute, 1e-6 * (ranks - 1)) << "the slowest rank's";
      EXPECT_EQ(one.dense_step, all[0].dense_step);
      EXPECT_EQ(one.step, all[0].step);
      EXPECT_EQ(sparse_of(one), sparse_of(all[0]));
      EXPECT_EQ(one.buckets[0].sparse_seconds, all[0].buckets[0].sparse_seconds);
    }
  }
}

TEST(Choose, TakesSparseForLongBucketsOnASlowNetworkAndDenseWhereLatencyCounts) {
  const Choice slow = choose_on(4, 1e6, 1e-6)[0];
  EXPECT_TRUE(slow.buckets[0].sparse);
  EXPECT_FALSE(slow.buckets[2].sparse) << "its rules send it whole";
  EXPECT_NEAR(slow.buckets[0].dense_seconds, 8 * 40'000 * 0.75 / 1e6, 0.05)
      << "measured, a quarter of the bucket six times over the link";
  EXPECT_FALSE(choose_on(4, 1e12, 1e-2)[0].any_sparse());
}

TEST(Choose, OneRankAloneTakesDenseAndMeasuresNothing) {
  const Choice alone = choose_on(1, 1e6, 1e-6)[0];
  EXPECT_FALSE(alone.any_sparse());
  EXPECT_EQ(alone.dense_step, 0);
  EXPECT_EQ(alone.reason("knot"),
            "auto takes dense: one worker has nobody to exchange with.");
}

}  // namespace
}  // namespace topknot::sim

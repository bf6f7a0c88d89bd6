// SPDX-License-Identifier: Apache-2.0
#include "sim/predict.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/advise.h"
#include "sim/rates.h"
#include "topknot/error.h"

namespace topknot::sim {
namespace {

Line line(double gbps) {
  Line made{gbps, find_network("1gbe").network};
  made.network.between = line_speed(gbps, 20e-6, 1e-6);
  return made;
}

Predictor closed(const Workload& workload) {
  return {workload, default_calibration(), {}, Method::closed_form};
}

std::vector<Candidate> everything() {
  std::vector<Candidate> all;
  for (const Scheme& scheme : schemes())
    all.push_back(Candidate::of(std::string(scheme.name), 0.01));
  all.push_back(Candidate::rounds(1.0 / 64));
  return all;
}

TEST(Fit, FindsTheRatesThatMadeTheSamples) {
  std::vector<WorkSample> samples;
  for (const double bytes : {1e3, 1e4, 1e5})
    samples.push_back({1e6, bytes, 2e-9 * 1e6 + 3e-8 * bytes});
  const Rates found = fit(samples);
  EXPECT_NEAR(found.per_coordinate, 2e-9, 1e-13);
  EXPECT_NEAR(found.per_byte, 3e-8, 1e-12);
}

TEST(Fit, GivesNoNegativeRateAndSeparatesNothingThatIsProportional) {
  const Rates falling = fit(std::vector<WorkSample>{{1e6, 1e3, 2e-3}, {1e6, 1e6, 1e-3}});
  EXPECT_EQ(falling.per_byte, 0);
  EXPECT_GT(falling.per_coordinate, 0);
  const Rates dense = fit(std::vector<WorkSample>{{1e6, 6e6, 3e-3}, {2e6, 12e6, 6e-3}});
  EXPECT_EQ(dense.per_coordinate, 0);
  EXPECT_NEAR(dense.per_byte, 5e-10, 1e-14);
}

TEST(Predict, AStepIsComputeAndWhatDoesNotFitBehindIt) {
  Predictor predictor = closed({.params = 25e6, .compute = 0.5});
  const Prediction slow = predictor.predict(Candidate::of("dense", 1), 4, line(1));
  EXPECT_GT(slow.exposed_seconds, 1);
  EXPECT_DOUBLE_EQ(slow.step_seconds, 0.5 + slow.exposed_seconds);
  EXPECT_LT(slow.exposed_seconds, slow.exchange_seconds) << "some of it is hidden";
  const Prediction fast = predictor.predict(Candidate::of("dense", 1), 4, line(400));
  EXPECT_LT(fast.exposed_seconds, 0.1 * fast.exchange_seconds + 0.02);
  EXPECT_DOUBLE_EQ(fast.speedup_vs_dense, 1);
}

TEST(Predict, RoundsShareTheirExchangeOutOverTheirSteps) {
  const Candidate rounds = Candidate::rounds(1.0 / 64);
  EXPECT_EQ(rounds.every, 4);
  Predictor predictor = closed({.params = 25e6, .compute = 0.5});
  const Prediction found = predictor.predict(rounds, 4, line(1));
  EXPECT_NEAR(found.exposed_seconds, found.exchange_seconds, 1e-9);
  const double dense_bytes =
      predictor.predict(Candidate::of("dense", 1), 4, line(1)).bytes;
  EXPECT_LT(found.bytes, 1.1 * dense_bytes / 64);
}

TEST(Predict, RecordedBucketsAreReplayedWhenTheyWereReady) {
  Workload early{.params = 20e6, .compute = 0.5, .buckets = {{10e6, 0.1}, {10e6, 0.2}}};
  Workload late = early;
  late.buckets = {{10e6, 0.4}, {10e6, 0.5}};
  const Candidate dense = Candidate::of("dense", 1);
  const double first = closed(early).predict(dense, 4, line(10)).step_seconds;
  const double second = closed(late).predict(dense, 4, line(10)).step_seconds;
  EXPECT_LT(first, second);
}

TEST(Predict, ATenthOfATrillionParametersOnSixtyThousandRanksAreNoTrouble) {
  Predictor predictor = closed({.params = 1e11, .compute = 10, .bucket_bytes = 1 << 30});
  for (const char* scheme : {"dense", "knot", "oktopk", "gtopk"}) {
    const Prediction found =
        predictor.predict(Candidate::of(scheme, 0.001), 65'535, line(100));
    EXPECT_GT(found.exchange_seconds, 0.1) << scheme;
    EXPECT_LT(found.exchange_seconds, 1e6) << scheme;
  }
}

TEST(Predict, OneRankHasNobodyToWaitFor) {
  Predictor predictor({.params = 1e6}, default_calibration(), {}, Method::simulated);
  const Prediction found = predictor.predict(Candidate::of("knot", 0.01), 1, line(1));
  EXPECT_EQ(found.bytes, 0);
  EXPECT_LT(found.step_seconds, 0.1);
}

// ---- advice

Advice ask(double params, double compute, int ranks, double gbps) {
  const Workload workload{.params = params, .compute = compute};
  Predictor predictor = closed(workload);
  Predictor at_any_rate = closed(workload);
  return advise(predictor, at_any_rate, everything(), ranks, line(gbps));
}

TEST(Advise, SaysDenseOnAFastNetwork) {
  const Advice advice = ask(14.7e6, 0.2, 4, 100);
  EXPECT_EQ(advice.choice.scheme, "dense");
  EXPECT_NE(advice.reason.find("Use dense"), std::string::npos) << advice.reason;
  EXPECT_LT(advice.break_even_gbps, 100);
  EXPECT_GT(advice.break_even_gbps, 1);
}

TEST(Advise, SaysASparseSchemeForVggOnSixteenWorkersAtOneGigabit) {
  const Advice advice = ask(14.7e6, 0.1, 16, 1);
  EXPECT_NE(advice.choice.scheme, "dense");
  EXPECT_NE(advice.choice.scheme, "dense-bf16");
  EXPECT_GT(advice.choice.speedup_vs_dense, 2);
  EXPECT_GT(advice.break_even_gbps, 1);
  EXPECT_TRUE(std::ranges::is_sorted(advice.table, {}, &Prediction::step_seconds));
}

TEST(Advise, TheChoiceTurnsAtTheBreakEven) {
  const double turn = ask(14.7e6, 0.1, 16, 1).break_even_gbps;
  Predictor predictor = closed({.params = 14.7e6, .compute = 0.1});
  const auto gain = [&](double gbps) {
    double best = 0;
    for (const Candidate& candidate : everything())
      if (!candidate.is_dense())
        best =
            std::max(best, predictor.predict(candidate, 16, line(gbps)).speedup_vs_dense);
    return best;
  };
  EXPECT_GT(gain(turn / 2), kWorthwhile);
  EXPECT_LT(gain(turn * 4), 1.2);
}

TEST(Advise, WhatPaysAtAnyBandwidthIsSaid) {
  const Advice advice = ask(14.7e6, 0.05, 16, 1);
  EXPECT_EQ(advice.break_even_gbps, kAnyRate);
  EXPECT_NE(advice.reason.find("at any bandwidth"), std::string::npos) << advice.reason;
}

TEST(Advise, NothingSparseToAdviseIsSaid) {
  Predictor predictor = closed({.params = 1e6});
  const std::vector<Candidate> dense = {Candidate::of("dense", 1)};
  EXPECT_EQ(advise(predictor, predictor, dense, 4, line(1)).reason,
            "Only dense exchange was asked about.");
}

}  // namespace
}  // namespace topknot::sim

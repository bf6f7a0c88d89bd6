// SPDX-License-Identifier: Apache-2.0
//
// knot against its oracle: everybody's selection, found by sorting, added up, and the k
// largest of that sum, found by sorting. Values are integers of few bits, times a power
// of two, so that sums are exact in any order.
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "collectives/training.h"
#include "collectives/trials.h"
#include "refusal.h"

namespace topknot::testing {
namespace {

using Places = std::vector<std::uint32_t>;

/// The rank that owns coordinate i of n on a step, as docs/knot.md has it.
std::size_t owner(std::size_t i, std::size_t n, std::size_t ranks, std::size_t step) {
  const std::size_t block =
      std::bit_floor(std::clamp<std::size_t>(n / (16 * ranks), 1, 256));
  return (i / block + step) % ranks;
}

struct Expected {
  Places index;
  std::vector<float> sum;
  std::vector<Places> settled;               // by rank
  std::vector<std::vector<float>> residual;  // by rank
};

/// The outcome of a step in which rank r sends the `wanted[r]` largest of residual + gradient.
/// Of equal sums the one with the lower owner is larger, then the one at the lower place.
Expected oracle(const Outcome& step, std::size_t number, std::size_t k,
                const std::vector<std::size_t>& wanted) {
  const std::size_t n = step.sum.size();
  const std::size_t ranks = step.folded.size();
  Expected expected{{}, std::vector<float>(n), {}, step.folded};
  std::vector<float> total(n);
  std::set<std::uint32_t> reached;
  std::vector<Places> sent;
  for (std::size_t r = 0; r < ranks; ++r) {
    sent.push_back(places_of_largest(step.folded[r], wanted[r]));
    for (const std::uint32_t i : sent[r]) total[i] += step.folded[r][i];
    reached.insert(sent[r].begin(), sent[r].end());
  }
  expected.index.assign(reached.begin(), reached.end());
  std::ranges::sort(expected.index, {}, [&](std::uint32_t i) {
    return std::tuple(-std::abs(total[i]), owner(i, n, ranks, number), i);
  });
  expected.index.resize(std::min(k, expected.index.size()));
  std::ranges::sort(expected.index);
  for (const std::uint32_t i : expected.index) expected.sum[i] = total[i];
  for (std::size_t r = 0; r < ranks; ++r) {
    expected.settled.emplace_back();
    std::ranges::set_intersection(sent[r], expected.index,
                                  std::back_inserter(expected.settled[r]));
    for (const std::uint32_t i : expected.settled[r]) expected.residual[r][i] = 0;
  }
  return expected;
}

void expect(Outcome step, const Expected& expected) {
  ASSERT_EQ(step.index, expected.index);
  ASSERT_EQ(step.sum, expected.sum);
  for (std::size_t r = 0; r < step.residual.size(); ++r) {
    std::ranges::sort(step.settled[r]);
    ASSERT_EQ(step.settled[r], expected.settled[r]) << "rank " << r;
    ASSERT_EQ(step.residual[r], expected.residual[r]) << "rank " << r;
  }
}

/// Holds every step of `t` to the oracle.
void hold(const Training& t) {
  const auto steps = train(t);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    SCOPED_TRACE(t.collective + ", P=" + std::to_string(t.ranks) +
                 " n=" + std::to_string(t.layout.size()) + " k=" + std::to_string(t.k) +
                 " step " + std::to_string(s));
    const std::vector<std::size_t> wanted(static_cast<std::size_t>(t.ranks), t.k);
    expect(steps[s], oracle(steps[s], s, t.k, wanted));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// ---- gradients; |x| stays below 2^7 units, so that bf16 holds sums of two of them

float few_values(int rank, int step, std::size_t i) {
  return std::clamp(std::trunc(2 * laplace(rank, step, i)), -2.0F, 2.0F);
}
float integers(int rank, int step, std::size_t i) {
  return std::trunc(8 * laplace(rank, step, i)) + std::trunc(8 * laplace(99, step, i));
}
float equal(int, int, std::size_t) { return 3; }
float opposite(int rank, int, std::size_t) { return rank % 2 == 0 ? 3.0F : -3.0F; }
float zeros(int, int, std::size_t) { return 0; }
float in_one_binade(int rank, int step, std::size_t i) {
  return 1 + 0x1p-16F * std::trunc(std::abs(laplace(rank, step, i)));
}
float denormals(int rank, int step, std::size_t i) {
  return 0x1p-149F * integers(rank, step, i);
}
float powers_of_two(int rank, int step, std::size_t i) {
  return std::exp2(std::trunc(std::clamp(2 * laplace(rank, step, i), -6.0F, 6.0F)));
}
float jumps(int rank, int step, std::size_t i) {
  constexpr float kScales[] = {1, 0x1p40F, 0x1p-40F, 0x1p100F, 0};
  return kScales[step % 5] * integers(rank, step, i);
}
float one_rank_has_all(int rank, int step, std::size_t i) {
  return rank == step % 3 ? integers(rank, step, i) : 0.0F;
}

constexpr float (*kKinds[])(int, int, std::size_t) = {
    few_values,    integers,  equal,         opposite,        zeros,
    in_one_binade, denormals, powers_of_two, one_rank_has_all};

#ifdef TOPKNOT_SANITIZED
constexpr int kRanks[] = {1, 2, 3, 5};
#else
constexpr int kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
#endif

class Knot : public ::testing::TestWithParam<int> {};

TEST_P(Knot, KeepsExactlyTheLargestOfTheSumOfTheSelections) {
  const auto p = static_cast<std::size_t>(GetParam());
  for (const std::size_t n : {std::size_t{1}, p - 1, p, p + 1, 16 * p, std::size_t{700}})
    for (const std::size_t k : awkward_ks(GetParam(), n))
      for (const auto kind : kKinds)
        hold({.collective = "knot",
              .layout = Layout::flat(n),
              .k = k,
              .ranks = GetParam(),
              .steps = 3,
              .gradient = kind});
}

// Blocks of 2 and more coordinates, and thresholds that are some steps old.
TEST_P(Knot, KeepsThemInLongVectorsAndForManySteps) {
  for (const auto kind : {few_values, integers})
    for (const std::size_t k : {std::size_t{40}, std::size_t{1500}})
      hold({.collective = "knot",
            .layout = Layout::flat(4097),
            .k = k,
            .ranks = GetParam(),
            .steps = 11,
            .gradient = kind});
}

TEST_P(Knot, KeepsThemOnEverySchedule) {
  for (const char* schedule : {"auto", "direct", "log"})
    for (const std::size_t k : {1, 30, 200})
      for (const auto kind : {few_values, integers})
        hold({.collective = std::string("knot:schedule=") + schedule,
              .layout = Layout::flat(300),
              .k = k,
              .ranks = GetParam(),
              .steps = 3,
              .gradient = kind});
}

// bf16 holds these values, and the sums of few ranks, as they are.
TEST_P(Knot, KeepsThemInEveryCoding) {
  for (const char* format :
       {"coding=plain", "coding=delta", "coding=bitmap", "coding=dense", "values=bf16"})
    hold({.collective = std::string("knot:") + format,
          .layout = Layout::flat(300),
          .k = 20,
          .ranks = GetParam(),
          .steps = 3,
          .gradient = few_values});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Knot, ::testing::ValuesIn(kRanks));

// So many survivors that residuals are settled slice by slice.
TEST(KnotDense, KeepsExactlyTheLargestOfAQuarterAndOfMost) {
  for (const int ranks : {1, 2, 3})
    for (const std::size_t k : {15000, 27000, 55000})
      for (const auto kind : {few_values, integers, denormals})
        hold({.collective = "knot",
              .layout = Layout::flat(60001),
              .k = k,
              .ranks = ranks,
              .steps = 2,
              .gradient = kind});
}

// Integers, whose rounding errors are exact.
TEST(KnotDense, LosesNothingToRoundedValues) {
  for (const char* values : {"i2", "i8"})
    for (const int ranks : {2, 3})
      for (const std::size_t k : {600, 15000, 40000}) {
        const auto steps = train({.collective = std::string("knot:values=") + values,
                                  .layout = Layout::flat(60001),
                                  .k = k,
                                  .ranks = ranks,
                                  .steps = 3,
                                  .gradient = integers});
        for (const Outcome& step : steps) {
          ASSERT_EQ(step.index.size(), k);
          for (std::size_t i = 0; i < step.sum.size(); ++i) {
            double settled = 0;
            for (std::size_t r = 0; r < step.folded.size(); ++r)
              settled += double{step.folded[r][i]} - step.residual[r][i];
            ASSERT_EQ(settled, step.sum[i]) << values << ", k = " << k << ", at " << i;
          }
        }
      }
}

TEST(KnotScale, IsFollowedWithoutAStepThatIsOff) {
  // Residuals of before are lost beside 2^100, so the law is inexact, but not the choice.
  const std::size_t n = 500;
  const auto steps = train({.collective = "knot",
                            .layout = Layout::flat(n),
                            .k = 37,
                            .ranks = 3,
                            .steps = 5,
                            .gradient = jumps});
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto expected = oracle(steps[s], s, 37, {37, 37, 37});
    EXPECT_EQ(steps[s].index, expected.index) << "step " << s;
  }
}

TEST(KnotOwners, TakeTurns) {
  // Every sum ties, so the owners with the lower numbers have the survivors.
  for (int step = 0; step < 5; ++step) {
    const auto steps = train({.collective = "knot",
                              .layout = Layout::flat(4),
                              .k = 1,
                              .ranks = 4,
                              .steps = step + 1,
                              .gradient = [](int rank, int, std::size_t i) {
                                return static_cast<std::size_t>(rank) == i ? 1.0F : 0.0F;
                              }});
    // Coordinate i is rank (i + step) mod 4's; what survived on an earlier step is 1,
    // the others have grown alike.
    const auto expected =
        oracle(steps.back(), static_cast<std::size_t>(step), 1, {1, 1, 1, 1});
    EXPECT_EQ(steps.back().index, expected.index);
    if (step == 1) {
      EXPECT_EQ(steps.back().index, Places{3});
    }
  }
}

// A float cannot tell 2^24 from the coordinate after it.
TEST(Knot, FindsCoordinatesAbove24Bits) {
  const std::size_t n = (std::size_t{1} << 24) + 40;
  const Places hot = {0, (1U << 24) - 1, 1U << 24, (1U << 24) + 1, (1U << 24) + 39};
  run(2, [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse("knot"), link, *compressor, layout);
    std::vector<float> residual(n);
    std::vector<float> grad(n);
    for (const std::uint32_t i : hot)
      grad[i] = static_cast<float>(link.rank() + 1) + static_cast<float>(i % 8);
    const Reduced reduced = made->reduce(residual, grad, 5, grad);
    Places index(reduced.index.begin(), reduced.index.end());
    std::ranges::sort(index);
    EXPECT_EQ(index, hot);
    for (const std::uint32_t i : hot)
      EXPECT_EQ(grad[i], 3 + 2 * static_cast<float>(i % 8));
  });
}

// ---- the schedule

std::uint64_t messages(const std::string& schedule, std::size_t k) {
  const auto steps = train({.collective = "knot:schedule=" + schedule,
                            .layout = Layout::flat(4000),
                            .k = k,
                            .ranks = 8,
                            .steps = 1,
                            .gradient = uncorrelated});
  std::uint64_t most = 0;
  for (const Sent& sent : steps[0].sent) most = std::max(most, sent.messages);
  return most;
}

TEST(KnotSchedule, IsShortWhereHeadersOutweighPairs) {
  // Both phases: 7 messages each, or 3 packets; the rest is the agreement.
  EXPECT_EQ(messages("direct", 50), messages("log", 50) + 2 * (7 - 3));
  EXPECT_EQ(messages("auto", 16 * 7 - 1), messages("log", 16 * 7 - 1));
  EXPECT_EQ(messages("auto", 16 * 7), messages("direct", 16 * 7));
}

TEST(KnotSchedule, KeepsTheLawInAnyCoding) {
  for (const char* schedule : {"direct", "log"})
    for (const int ranks : {1, 2, 3, 6, 9, 16})
      for (const char* values : {"f32", "bf16", "i8"})
        hold_to_the_law(std::string("knot:schedule=") + schedule + ",values=" + values,
                        ranks);
}

TEST(KnotSchedule, AppliesAStepOnAllRanksOrOnNone) {
  for (const char* schedule : {"direct", "log"})
    for (const int ranks : {2, 3, 5, 8})
      hold_nonfinite_steps(std::string("knot:values=bf16,schedule=") + schedule, ranks);
}

TEST(KnotSchedule, LosesNothingWithARank) {
  for (const char* schedule : {"direct", "log"})
    for (const int ranks : {2, 3, 5})
      hold_a_lost_rank(std::string("knot:schedule=") + schedule, ranks);
}

// ---- survive

/// What a rank sends on the next step by the rule of survive=.
std::size_t next_quota(std::size_t sent, std::size_t survived, double survive) {
  const double share = static_cast<double>(survived) / static_cast<double>(sent);
  return static_cast<std::size_t>(static_cast<double>(sent) *
                                  (share < survive ? 0.97 : 1.03)) +
         1;
}

TEST(KnotSurvive, SendsLessWhileTooLittleSurvivesAndKeepsTheLargestOfIt) {
  const std::size_t k = 120;
  for (const double survive : {0.01, 0.4, 1.0}) {
    const auto steps = train({.collective = "knot:survive=" + std::to_string(survive),
                              .layout = Layout::flat(2000),
                              .k = k,
                              .ranks = 4,
                              .steps = 60,
                              .gradient = integers});
    std::vector<std::size_t> wanted(4, k);
    std::size_t fewest = k;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      SCOPED_TRACE("survive=" + std::to_string(survive) + " step " + std::to_string(s));
      expect(steps[s], oracle(steps[s], s, k, wanted));
      if (HasFatalFailure()) return;
      for (std::size_t r = 0; r < 4; ++r) {
        wanted[r] =
            std::min(k, next_quota(wanted[r], steps[s].settled[r].size(), survive));
        fewest = std::min(fewest, wanted[r]);
      }
      EXPECT_EQ(std::min(static_cast<double>(k), steps[s].after.numbers.at("quota")),
                static_cast<double>(wanted[0]));
    }
    if (survive == 0.01) {
      EXPECT_EQ(fewest, k);  // more than that always survives
    } else {
      EXPECT_LT(fewest, survive == 1.0 ? k / 2 : 4 * k / 5) << "nothing was learned";
    }
  }
}

TEST(KnotSurvive, IsOffUnlessAskedFor) {
  const auto steps = train({.collective = "knot",
                            .layout = Layout::flat(2000),
                            .k = 50,
                            .ranks = 4,
                            .steps = 10,
                            .gradient = uncorrelated});
  for (const Outcome& step : steps) EXPECT_EQ(step.after.numbers.at("quota"), 0);
}

TEST(KnotSurvive, IsAShare) {
  const auto alone = make_inproc(1);
  const Layout layout = Layout::flat(10);
  const auto compressor = make_compressor(Spec::parse("topk"), layout);
  EXPECT_REFUSAL(
      make_collective(Spec::parse("knot:survive=1.5"), *alone[0], *compressor, layout),
      ConfigError, "survive=1.5 is not in 0..1.");
}

// ---- what is kept

TEST(Knot, GoesOnFromASavedState) {
  // Ties, which go by the owner and so by the step.
  for (const char* name : {"knot", "knot:survive=0.8"})
    expect_goes_on_from_saved_state(name, Layout::flat(2000), few_values);
}

TEST(Knot, CutsWhatACompressorGivesBeyondK) {
  const auto steps = train({.collective = "knot:coding=plain,schedule=direct",
                            .layout = Layout::flat(1000),
                            .k = 10,
                            .ranks = 3,
                            .steps = 2,
                            .gradient = integers,
                            .compressor = "threshold:value=0.001"});
  for (std::size_t s = 0; s < steps.size(); ++s)
    expect(steps[s], oracle(steps[s], s, 10, {10, 10, 10}));
}

}  // namespace
}  // namespace topknot::testing

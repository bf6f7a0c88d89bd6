// SPDX-License-Identifier: Apache-2.0
//
// oktopk against its rules, worked out by sorting. With exact top-k below it, so that
// what everyone selects is known; values are integers, so that sums are exact.
#include <gtest/gtest.h>

#include <set>

#include "collectives/training.h"
#include "collectives/trials.h"
#include "refusal.h"

namespace topknot::testing {
namespace {

using Places = std::vector<std::uint32_t>;
using Table = std::vector<std::uint64_t>;

/// The published constants.
struct Workload {
  const char* name;
  int tau_prime;
  double low;
  double high;
  float lower;
  float raise;
};
constexpr Workload kWorkloads[] = {{"any", 32, 0.98, 1.02, 1.01F, 1.01F},
                                   {"vgg", 32, 2.0 / 3, 4.0 / 3, 1.008F, 1.008F},
                                   {"lstm", 32, 3.0 / 4, 5.0 / 4, 1.01F, 1.008F},
                                   {"bert", 128, 4.0 / 5, 5.0 / 4, 1.036F, 1.025F}};

/// What the owners have together: the sum of everybody's selection.
struct Held {
  std::vector<float> sum;
  Places reached;  // in order

  Places at_least(float threshold) const {
    Places places;
    std::ranges::copy_if(reached, std::back_inserter(places),
                         [&](std::uint32_t i) { return std::abs(sum[i]) >= threshold; });
    return places;
  }
  /// The k largest; ties to the lower coordinate.
  Places largest(std::size_t k) const {
    Places places = reached;
    std::ranges::stable_sort(places, std::greater<>(),
                             [&](std::uint32_t i) { return std::abs(sum[i]); });
    places.resize(std::min(k, places.size()));
    std::ranges::sort(places);
    return places;
  }
};

Held held_on(const Outcome& step, std::size_t k) {
  Held held{std::vector<float>(step.sum.size()), {}};
  std::set<std::uint32_t> reached;
  for (const std::vector<float>& one : step.folded)
    for (const std::uint32_t i : places_of_largest(one, k)) {
      held.sum[i] += one[i];
      reached.insert(i);
    }
  held.reached.assign(reached.begin(), reached.end());
  return held;
}

float threshold(const State& state) {
  return static_cast<float>(state.numbers.at("threshold"));
}
const Table& cuts(const State& state) { return state.tables.at("cuts"); }

/// That the sum is the owners' at what was chosen, and that a rank's residual is settled where
/// it sent a part of that, and unchanged everywhere else.
void expect_settled(const Outcome& step, const Held& held, std::size_t k) {
  std::vector<float> sum(held.sum.size());
  for (const std::uint32_t i : step.index) sum[i] = held.sum[i];
  ASSERT_EQ(step.sum, sum);
  for (std::size_t r = 0; r < step.folded.size(); ++r) {
    Places settled;
    std::ranges::set_intersection(places_of_largest(step.folded[r], k), step.index,
                                  std::back_inserter(settled));
    ASSERT_EQ(step.settled[r], settled) << "rank " << r;
    std::vector<float> residual = step.folded[r];
    for (const std::uint32_t i : settled) residual[i] = 0;
    ASSERT_EQ(step.residual[r], residual) << "rank " << r;
  }
}

/// How often each way of choosing was taken.
struct Ways {
  int exact = 0;
  int reused = 0;
  int cut = 0;      // what reached the threshold, to k
  int refound = 0;  // it had moved too far
  int lowered = 0;
  int raised = 0;
};

/// That what is kept of `reached` is k, and in every owner's region the largest of it.
void expect_cut(const Outcome& step, const Held& held, const Places& reached,
                std::size_t k) {
  ASSERT_EQ(step.index.size(), k);
  const Table& cut = cuts(step.after);
  for (std::size_t part = 0; part + 1 < cut.size(); ++part) {
    const auto inside = [&](std::uint32_t i) {
      return i >= cut[part] && i < cut[part + 1];
    };
    Held own{held.sum, {}};
    Places kept;
    std::ranges::copy_if(reached, std::back_inserter(own.reached), inside);
    std::ranges::copy_if(step.index, std::back_inserter(kept), inside);
    ASSERT_EQ(kept, own.largest(kept.size())) << "region " << part;
    ASSERT_EQ(kept.empty(), own.reached.empty()) << "region " << part;
  }
}

void expect_exact(const Outcome& step, const Held& held, std::size_t k) {
  ASSERT_EQ(step.index, held.largest(k));
  // All that was kept reach the new threshold, and nothing that was dropped exceeds it.
  const std::set<std::uint32_t> kept(step.index.begin(), step.index.end());
  for (const std::uint32_t i : held.reached) {
    if (kept.contains(i)) {
      ASSERT_GE(std::abs(held.sum[i]), threshold(step.after));
    } else {
      ASSERT_LE(std::abs(held.sum[i]), threshold(step.after));
    }
  }
}

/// Holds a step to the rules, but for those of faithful=1.
void hold(const Outcome& step, std::size_t number, std::size_t k, const Workload& work,
          int tau_prime, Ways& ways) {
  const Held held = held_on(step, k);
  const float last = threshold(step.before);
  const Places reached = held.at_least(last);
  const std::size_t half = std::min(k, held.reached.size());
  const bool due = static_cast<double>(number) >= step.before.numbers.at("next_exact");
  const bool near = 2 * reached.size() >= half && reached.size() <= 2 * k &&
                    (reached.size() <= k || k >= 2 * step.folded.size());
  if (due || last == 0 || !near) {
    ++(due ? ways.exact : ways.refound);
    expect_exact(step, held, k);
    const int period = std::clamp(static_cast<int>(number), 1, tau_prime);
    ASSERT_EQ(step.after.numbers.at("next_exact"), static_cast<int>(number) + period);
  } else {
    ++ways.reused;
    float corrected = last;
    const auto count = static_cast<double>(reached.size());
    const auto wanted = static_cast<double>(k);
    if (count < work.low * wanted) ++ways.lowered, corrected /= work.lower;
    if (count > work.high * wanted) ++ways.raised, corrected *= work.raise;
    ASSERT_FLOAT_EQ(threshold(step.after), corrected);
    if (reached.size() <= k) {
      ASSERT_EQ(step.index, reached);
    } else {
      ++ways.cut;
      expect_cut(step, held, reached, k);
    }
  }
  expect_settled(step, held, k);
}

/// What of, and how, is chosen on every step of a job.
Ways hold(const Training& t, const Workload& work, int tau_prime) {
  Ways ways;
  const auto steps = train(t);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    SCOPED_TRACE(t.collective + ", P=" + std::to_string(t.ranks) +
                 " k=" + std::to_string(t.k) + " step " + std::to_string(s));
    hold(steps[s], s, t.k, work, tau_prime, ways);
    if (::testing::Test::HasFatalFailure()) break;
  }
  return ways;
}

float integers(int rank, int step, std::size_t i) {
  return std::trunc(64 * laplace(rank, step, i)) + std::trunc(64 * laplace(99, step, i));
}
float few_values(int rank, int step, std::size_t i) {
  return std::clamp(std::trunc(2 * laplace(rank, step, i)), -2.0F, 2.0F);
}
float jumps(int rank, int step, std::size_t i) {
  return integers(rank, step, i) * (step / 6 % 2 == 0 ? 1.0F : 256.0F);
}

// ---- the threshold: workload, tau_prime

TEST(OkTopk, CorrectsTheThresholdAsItsWorkloadDoes) {
  for (const Workload& work : kWorkloads) {
    const Ways ways = hold({.collective = std::string("oktopk:workload=") + work.name,
                            .layout = Layout::flat(3000),
                            .k = 60,
                            .ranks = 4,
                            .steps = 150,
                            .gradient = integers},
                           work, work.tau_prime);
    EXPECT_GT(ways.reused, 100) << work.name;
    EXPECT_GT(ways.exact, 5) << work.name;
    if (std::string(work.name) == "any") {
      EXPECT_GT(ways.lowered, 0);
      EXPECT_GT(ways.raised, 0);
      EXPECT_GT(ways.cut, 0);
    }
  }
}

// All select the same k here, so that no threshold is ever far off.
TEST(OkTopk, FindsTheThresholdOnTheFirstStepsThenEveryTauPrime) {
  const std::size_t k = 60;
  const auto steps = train(
      {.collective = "oktopk:tau_prime=16",
       .layout = Layout::flat(3000),
       .k = k,
       .ranks = 3,
       .steps = 70,
       .gradient = [](int, int step, std::size_t i) { return integers(0, step, i); }});
  const std::set<std::size_t> exact = {0, 1, 2, 4, 8, 16, 32, 48, 64};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const bool due = static_cast<double>(s) >= steps[s].before.numbers.at("next_exact");
    EXPECT_EQ(due, exact.contains(s)) << "step " << s;
    if (due) {
      EXPECT_EQ(steps[s].index, held_on(steps[s], k).largest(k)) << "step " << s;
    }
  }
}

TEST(OkTopk, FindsTheThresholdAgainOnTheStepOnWhichItIsFarOff) {
  const Ways ways = hold({.collective = "oktopk",
                          .layout = Layout::flat(2000),
                          .k = 50,
                          .ranks = 4,
                          .steps = 60,
                          .gradient = jumps},
                         kWorkloads[0], 32);
  EXPECT_GT(ways.refound, 3);
}

// Where every owner had its share rounded down, nothing was left when all had one.
TEST(OkTopk, NeverCutsDownToNothing) {
  for (const int ranks : {2, 3, 5, 9})
    for (const std::size_t k : {std::size_t{1}, static_cast<std::size_t>(ranks) - 1,
                                static_cast<std::size_t>(2 * ranks)})
      for (const auto kind : {few_values, integers})
        hold({.collective = "oktopk",
              .layout = Layout::flat(200),
              .k = k,
              .ranks = ranks,
              .steps = 30,
              .gradient = kind},
             kWorkloads[0], 32);
}

TEST(OkTopk, ChoosesExactlyOnEveryStepWithATauPrimeOfOne) {
  const auto steps = train({.collective = "oktopk:tau_prime=1",
                            .layout = Layout::flat(1000),
                            .k = 30,
                            .ranks = 3,
                            .steps = 20,
                            .gradient = few_values});
  for (const Outcome& step : steps) EXPECT_EQ(step.index, held_on(step, 30).largest(30));
}

// ---- the regions: tau

/// The mean of the places that cut each rank's selection into equal parts.
Table mean_cuts(const Outcome& step, std::size_t k) {
  const std::size_t ranks = step.folded.size();
  Table cut = {0};
  for (std::size_t j = 1; j < ranks; ++j) {
    std::uint64_t total = 0;
    for (const std::vector<float>& one : step.folded) {
      const Places selected = places_of_largest(one, k);
      total += selected.empty() ? (one.size() * j + ranks - 1) / ranks
                                : selected[selected.size() * j / ranks];
    }
    cut.push_back(total / ranks);
  }
  cut.push_back(step.sum.size());
  return cut;
}

/// All that is large is in a tenth of the vector, which moves on after 64 steps.
float moving(int rank, int step, std::size_t i) {
  const std::size_t at = step < 64 ? 0 : 20000;
  return integers(rank, step, i) * (i >= at && i < at + 8000 ? 64.0F : 1.0F);
}

TEST(OkTopk, CutsTheVectorAnewEveryTauSteps) {
  for (const std::size_t tau : {std::size_t{5}, std::size_t{64}}) {
    const auto steps =
        train({.collective = tau == 64 ? "oktopk" : "oktopk:tau=" + std::to_string(tau),
               .layout = Layout::flat(80000),
               .k = 100,
               .ranks = 4,
               .steps = tau == 64 ? 66 : 12,
               .gradient = moving});
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Table expected =
          s % tau == 0 ? mean_cuts(steps[s], 100) : cuts(steps[s].before);
      EXPECT_EQ(cuts(steps[s].after), expected) << "tau=" << tau << " step " << s;
    }
  }
}

TEST(OkTopk, SharesOutWhatIsSelectedAfterTheCut) {
  const auto steps = train({.collective = "oktopk",
                            .layout = Layout::flat(80000),
                            .k = 400,
                            .ranks = 4,
                            .steps = 66,
                            .gradient = moving});
  const auto fullest = [&](std::size_t s) {
    const Held held = held_on(steps[s], 400);
    const Table& cut = cuts(steps[s].after);
    long most = 0;
    for (std::size_t j = 0; j < 4; ++j)
      most = std::max<long>(most, std::ranges::count_if(held.reached, [&](auto i) {
                              return i >= cut[j] && i < cut[j + 1];
                            }));
    return static_cast<double>(most) * 4 / static_cast<double>(held.reached.size());
  };
  EXPECT_LT(fullest(1), 1.3);
  EXPECT_LT(fullest(65), 1.5);
}

// ---- a hot region: the balancing move

/// After the first step, which cuts the vector evenly, all is in the last eighth.
float late_and_hot(int rank, int step, std::size_t i) {
  if (step == 0) return i % 40 == 0 ? 1.0F : 0.0F;
  return i >= 3500 ? 256 * integers(rank, step, i) : 0.0F;
}

TEST(OkTopk, EvensOutWhatOneOwnerHolds) {
  const std::size_t k = 100;
  const Training hot{.collective = "oktopk:coding=plain",
                     .layout = Layout::flat(4000),
                     .k = k,
                     .ranks = 8,
                     .steps = 3,
                     .gradient = late_and_hot};
  hold(hot, kWorkloads[0], 32);
  // The last of the eight owners has everything. With faithful=1 no counters are sent, so
  // what is left of the words is what was moved: all but one even share.
  Training published = hot;
  published.collective += ",faithful=1";
  const Outcome step = train(published)[1];
  const auto chosen = static_cast<std::uint64_t>(step.index.size());
  ASSERT_GT(chosen, k);
  ASSERT_GE(step.index.front(), cuts(step.after)[7]);
  std::uint64_t words = 0;
  for (const Sent& sent : step.sent) words += sent.words() + sent.agreement;
  const std::uint64_t split = 2 * 7 * k;
  const std::uint64_t ring = 2 * 7 * chosen;
  const std::uint64_t moved = 2 * (chosen - chosen / 8);
  EXPECT_GE(words, split + moved + ring - 8);
  EXPECT_LE(words, split + moved + ring + 200);  // counts
}

TEST(OkTopk, KeepsTheLawThroughTheBalancingMove) {
  for (const char* values : {"f32", "bf16", "i8"}) {
    const auto steps = train({.collective = std::string("oktopk:values=") + values,
                              .layout = Layout::flat(4000),
                              .k = 100,
                              .ranks = 8,
                              .steps = 6,
                              .gradient = late_and_hot});
    for (const Outcome& step : steps) {
      EXPECT_LE(step.index.size(), 100U);
      for (std::size_t i = 0; i < 4000; ++i) {
        double before = 0;
        double still = step.sum[i];
        double magnitude = 0;
        for (std::size_t r = 0; r < 8; ++r) {
          before += step.folded[r][i];
          still += step.residual[r][i];
          magnitude += std::abs(step.folded[r][i]);
        }
        EXPECT_NEAR(still, before, std::string(values) == "f32" ? 0 : 1e-6 * magnitude)
            << values << " at " << i;
      }
    }
  }
}

// ---- few: k < P, n < P, m < P selected

TEST(OkTopk, WorksWithFewerCoordinatesThanRanks) {
  for (const int ranks : {2, 5, 9})
    for (const std::size_t n : {std::size_t{1}, static_cast<std::size_t>(ranks) - 1,
                                static_cast<std::size_t>(ranks) + 1})
      for (std::size_t k = 0; k <= n + 1; ++k)
        for (const char* tau : {"oktopk", "oktopk:tau=1"}) {
          const auto steps = train({.collective = tau,
                                    .layout = Layout::flat(n),
                                    .k = k,
                                    .ranks = ranks,
                                    .steps = 5,
                                    .gradient = integers});
          for (std::size_t s = 0; s < steps.size(); ++s) {
            SCOPED_TRACE("P=" + std::to_string(ranks) + " n=" + std::to_string(n) +
                         " k=" + std::to_string(k) + " step " + std::to_string(s));
            const Held held = held_on(steps[s], k);
            expect_settled(steps[s], held, k);
            if (s < 3) {
              EXPECT_EQ(steps[s].index, held.largest(k));
            }
            EXPECT_TRUE(std::ranges::is_sorted(cuts(steps[s].after)));
            EXPECT_EQ(cuts(steps[s].after).size(), static_cast<std::size_t>(ranks) + 1);
            if (HasFatalFailure()) return;
          }
        }
}

// A compressor may find nothing at all on some ranks.
TEST(OkTopk, WorksWhereSomeRanksSelectNothing) {
  const auto steps = train(
      {.collective = "oktopk:tau=1",
       .layout = Layout::flat(1000),
       .k = 50,
       .ranks = 4,
       .steps = 5,
       .gradient = [](int rank, int,
                      std::size_t i) { return rank == 2 && i % 100 == 7 ? 5.0F : 0.0F; },
       .compressor = "threshold:value=1"});
  for (const Outcome& step : steps) {
    EXPECT_EQ(step.index.size(), 10U);
    for (const std::uint32_t i : step.index) EXPECT_EQ(i % 100, 7U);
    // Three ranks propose equal regions, one the tenth it has.
    EXPECT_EQ(cuts(step.after), (Table{0, 239, 501, 739, 1000}));
  }
}

// ---- coordinates above 2^24

// Cuts are means of sums of coordinates; a float, or 32 bits, would not hold them.
TEST(OkTopk, CutsAndFindsCoordinatesAbove24Bits) {
  const std::size_t n = (std::size_t{1} << 24) + 40;
  const std::uint32_t base = 1U << 24;
  const Places hot = {base + 1, base + 3, base + 5, base + 7, base + 9, base + 11};
  run(3, [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse("oktopk"), link, *compressor, layout);
    std::vector<float> residual(n);
    std::vector<float> grad(n);
    for (const std::uint32_t i : hot)
      grad[i] = static_cast<float>(link.rank() + 1) + static_cast<float>(i % 64);
    const Reduced reduced = made->reduce(residual, grad, 6, grad);
    Places index(reduced.index.begin(), reduced.index.end());
    std::ranges::sort(index);
    EXPECT_EQ(index, hot);
    for (const std::uint32_t i : hot)
      EXPECT_EQ(grad[i], 6 + 3 * static_cast<float>(i % 64));
    EXPECT_EQ(cuts(state_of(*made)), (Table{0, base + 5, base + 9, n}));
  });
}

// ---- faithful

TEST(OkTopkFaithful, TakesWhatReachesTheThresholdWithoutACap) {
  for (const Workload& work : kWorkloads)
    for (const auto kind : {few_values, integers}) {
      const std::size_t k = 60;
      const auto steps =
          train({.collective = std::string("oktopk:faithful=1,workload=") + work.name,
                 .layout = Layout::flat(3000),
                 .k = k,
                 .ranks = 4,
                 .steps = 40,
                 .gradient = kind});
      std::size_t most = 0;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        SCOPED_TRACE(std::string(work.name) + " step " + std::to_string(s));
        const Held held = held_on(steps[s], k);
        const float last = threshold(steps[s].before);
        const bool exact = s % static_cast<std::size_t>(work.tau_prime) == 0;
        float now = last;
        if (exact) {
          const Places best = held.largest(k);
          now = std::abs(held.sum[best[0]]);
          for (const std::uint32_t i : best) now = std::min(now, std::abs(held.sum[i]));
        }
        const Places reached = held.at_least(now);
        ASSERT_EQ(steps[s].index, reached);
        expect_settled(steps[s], held, k);
        if (HasFatalFailure()) return;
        const auto count = static_cast<double>(reached.size());
        if (!exact && count < work.low * k) now /= work.lower;
        if (!exact && count > work.high * k) now *= work.raise;
        ASSERT_FLOAT_EQ(threshold(steps[s].after), now);
        most = std::max(most, reached.size());
      }
      EXPECT_GT(most, k) << work.name;
    }
}

TEST(OkTopkFaithful, GathersTheUnionForTheThreshold) {
  const std::size_t k = 500;
  const auto steps = train({.collective = "oktopk:coding=plain,faithful=1",
                            .layout = Layout::flat(20000),
                            .k = k,
                            .ranks = 4,
                            .steps = 2,
                            .gradient = integers});
  for (std::size_t s = 0; s < 2; ++s) {
    std::uint64_t words = 0;
    std::uint64_t expected = 2 * 3 * steps[s].index.size();  // the ring of the chosen
    const Table& cut = cuts(steps[s].after);
    for (std::size_t r = 0; r < 4; ++r) {
      words += steps[s].sent[r].words() + steps[s].sent[r].agreement;
      for (const std::uint32_t i : places_of_largest(steps[s].folded[r], k))
        expected += i < cut[r] || i >= cut[r + 1] ? 2 : 0;  // split
    }
    const std::size_t all = held_on(steps[s], k).reached.size();
    EXPECT_GT(all, 2 * k);
    if (s == 0) expected += 2 * 3 * all;  // the ring of all sums
    EXPECT_GE(words, expected) << "step " << s;
    EXPECT_LE(words, expected + 100) << "step " << s;  // cuts and counts
  }
}

// ---- what every collective is held to, with parameters that the contract does not know

TEST(OkTopk, KeepsTheLawWithAnyParameters) {
  for (const char* parameters :
       {"workload=vgg", "workload=lstm", "workload=bert", "tau=1", "tau_prime=1",
        "faithful=1", "faithful=1,values=bf16", "tau=2,tau_prime=3,values=i8"})
    for (const int ranks : {1, 2, 3, 5, 8})
      hold_to_the_law(std::string("oktopk:") + parameters, ranks);
}

TEST(OkTopk, AppliesAStepOnAllRanksOrOnNone) {
  for (const char* parameters : {"tau=1", "faithful=1", "values=bf16"})
    for (const int ranks : {2, 3, 5, 8})
      hold_nonfinite_steps(std::string("oktopk:") + parameters, ranks);
}

TEST(OkTopk, LosesNothingWithARank) {
  for (const char* parameters : {"tau=1", "faithful=1"})
    for (const int ranks : {2, 3, 5})
      hold_a_lost_rank(std::string("oktopk:") + parameters, ranks);
}

TEST(OkTopk, GoesOnFromASavedState) {
  expect_goes_on_from_saved_state("oktopk:tau=7", Layout::flat(2000), integers);
}

TEST(OkTopk, CutsAnewWhereTheStateIsOfAnotherJob) {
  for (const Table& saved : {Table{0, 1000}, Table{0, 900, 300, 1000}, Table{},
                             Table{0, 300, 600, 2000}, Table{7, 300, 600, 1000}})
    run(3, [&](Transport& link) {
      const Layout layout = Layout::flat(1000);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto made = make_collective(Spec::parse("oktopk"), link, *compressor, layout);
      State state = state_of(*made);
      state.numbers["step"] = 3;
      state.numbers["k"] = 50;
      state.tables["cuts"] = saved;
      state.loading = true;
      made->visit_state(state);
      std::vector<float> residual(1000);
      std::vector<float> grad(1000);
      for (std::size_t i = 0; i < 1000; ++i) grad[i] = integers(link.rank(), 0, i);
      EXPECT_EQ(made->reduce(residual, grad, 50, grad).count, 50U);
      const Table cut = cuts(state_of(*made));
      ASSERT_EQ(cut.size(), 4U);
      EXPECT_EQ(cut.front(), 0U);
      EXPECT_EQ(cut.back(), 1000U);
      EXPECT_TRUE(std::ranges::is_sorted(cut));
    });
}

TEST(OkTopk, SaysWhatItsParametersMayBe) {
  const auto alone = make_inproc(1);
  const Layout layout = Layout::flat(10);
  const auto compressor = make_compressor(Spec::parse("topk"), layout);
  const auto said = [&](const std::string& parameters) {
    return refusal<ConfigError>([&] {
      make_collective(Spec::parse("oktopk:" + parameters), *alone[0], *compressor,
                      layout);
    });
  };
  EXPECT_EQ(said("tau=0"), "tau=0 is not in 1..1048576.");
  EXPECT_EQ(said("tau_prime=0"), "tau_prime=0 is not in 1..1048576.");
  EXPECT_EQ(said("workload=vg"),
            "There is no workload=vg; nearest is vgg (of any, vgg, lstm, bert).");
  EXPECT_EQ(said("faithful=maybe"), "faithful=maybe is neither 0 nor 1.");
  EXPECT_EQ(said("tua=3"),
            "oktopk has no parameter tua; nearest is tau (of coding, values, workload, "
            "tau_prime, faithful, tau).");
}

}  // namespace
}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
//
// Every line of the catalog is held to the law the moment it is listed.
#include "contract.h"

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "copy_of.h"
#include "ranks.h"

namespace topknot::testing {
namespace {

// Under a sanitizer everything takes ten times as long; the numbers of ranks are the ones at
// which algorithms differ: alone, a pair, odd, a power of two and one more.
#ifdef TOPKNOT_SANITIZED
const auto kRanks = ::testing::Values(1, 2, 3, 5);
#else
const auto kRanks = ::testing::Range(1, 10);
#endif

std::vector<std::string> names_of_collectives() {
  std::vector<std::string> names;
  for (const CollectiveEntry& entry : collectives()) names.emplace_back(entry.name);
  return names;
}

class EveryCollective : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const std::string& name() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }

  /// Runs all cases in one go of `ranks` threads.
  void hold(const std::vector<Case>& cases) {
    std::mutex mutex;
    run(ranks(), [&](Transport& link) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto part = link.channel(static_cast<int>(i));
        const auto wrong = violation(cases[i], *part);
        if (!wrong) continue;
        const std::scoped_lock lock(mutex);
        ADD_FAILURE() << cases[i].str(ranks()) << ": " << *wrong;
      }
    });
  }

  std::vector<Case> awkward_cases(const std::string& parameters) const {
    std::vector<Case> cases;
    for (const std::size_t n : awkward_sizes(ranks()))
      for (const std::size_t k : awkward_ks(ranks(), n))
        for (const Data data : kAllData)
          cases.push_back({.collective = name() + parameters,
                           .compressor = std::string(default_compressor(name())),
                           .n = n,
                           .k = k,
                           .data = data,
                           .in_place = (n + k) % 2 == 0});
    return cases;
  }
};

TEST_P(EveryCollective, AgreesOnTheSumAndLosesNothing) { hold(awkward_cases("")); }

TEST_P(EveryCollective, LosesNothingInAnyCodingAndOwesWhatRoundingTakesOff) {
  std::vector<Case> cases;
  for (const char* parameters : {":coding=plain", ":coding=bitmap", ":values=bf16",
                                 ":values=i8", ":values=i2", ":coding=plain,values=bf16"})
    for (Case& one : awkward_cases(parameters))
      if (one.data == Data::integers && one.n != 4097) cases.push_back(std::move(one));
  hold(cases);
}

TEST_P(EveryCollective, GivesTheDenseSumWhenEverythingIsWanted) {
  const std::size_t n = 999;
  const Case c{.collective = name(), .n = n, .k = n};
  run(ranks(), [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto pick = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse(name()), link, *pick, layout);
    std::vector<float> acc(n);
    std::vector<float> sum(n);
    made->reduce(acc, copy_of(gradient(c, link.rank(), 0)), n, sum);
    std::vector<float> expected(n);
    for (int r = 0; r < ranks(); ++r) {
      const std::vector<float> g = gradient(c, r, 0);
      for (std::size_t i = 0; i < n; ++i) expected[i] += g[i];
    }
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(acc, std::vector<float>(n));
  });
}

TEST_P(EveryCollective, AppliesAStepOnAllRanksOrOnNone) {
  const std::size_t n = 300;
  const Case c{.collective = name(), .n = n, .k = 30};
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  run(ranks(), [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto pick = make_compressor(Spec::parse(default_compressor(name())), layout);
    const auto made = make_collective(Spec::parse(name()), link, *pick, layout);
    std::vector<float> acc = gradient(c, link.rank(), -1);
    for (int step = 0; step < 8; ++step) {
      const std::vector<float> before = acc;
      std::vector<float> grad = gradient(c, link.rank(), step);
      const bool sick = step % 2 == 0;
      if (sick && link.rank() == step / 2 % ranks())
        grad[static_cast<std::size_t>(step) * 41 % n] = bad[step % 3];
      std::vector<float> sum(n);
      const Reduced reduced = made->reduce(acc, grad, c.k, sum);
      EXPECT_EQ(reduced.finite, !sick) << "step " << step << " at rank " << link.rank();
      if (sick) {
        EXPECT_EQ(acc, before) << "step " << step << " at rank " << link.rank();
      }
    }
  });
}

TEST_P(EveryCollective, CallsASumThatOverflowsNotFinite) {
  if (ranks() == 1) GTEST_SKIP() << "one rank adds nothing up";
  const std::size_t n = 50;
  run(ranks(), [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto pick = make_compressor(Spec::parse(default_compressor(name())), layout);
    const auto made = make_collective(Spec::parse(name()), link, *pick, layout);
    std::vector<float> acc(n);
    std::vector<float> grad(n, std::numeric_limits<float>::max());
    EXPECT_FALSE(made->reduce(acc, grad, n, grad).finite);
    EXPECT_EQ(acc, std::vector<float>(n));
  });
}

class ManyRanks : public EveryCollective {};

TEST_P(ManyRanks, AgreeOnTheSumAndLoseNothing) {
  std::vector<Case> cases;
  for (const char* parameters : {"", ":values=bf16"})
    for (const std::size_t n : {20, 1000})
      for (const std::size_t k : {1, 20, 40})
        cases.push_back({.collective = name() + parameters,
                         .compressor = std::string(default_compressor(name())),
                         .n = n,
                         .k = k});
  hold(cases);
}

INSTANTIATE_TEST_SUITE_P(Catalog, ManyRanks,
                         ::testing::Combine(::testing::ValuesIn(names_of_collectives()),
                                            ::testing::Values(16, 33)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

INSTANTIATE_TEST_SUITE_P(Catalog, EveryCollective,
                         ::testing::Combine(::testing::ValuesIn(names_of_collectives()),
                                            kRanks),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
//
// Every line of the catalog is held to the law the moment it is listed.
#include "contract.h"

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <string>
#include <tuple>

#include "ranks.h"

namespace topknot::testing {
namespace {

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

TEST_P(EveryCollective, LosesNothingWithPlainPositions) {
  hold(awkward_cases(":coding=plain"));
}

TEST_P(EveryCollective, OwesWhatRoundingTakesOff) {
  hold(awkward_cases(":values=bf16"));
  hold(awkward_cases(":values=i8"));
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
    made->reduce(acc, gradient(c, link.rank(), 0), n, sum);
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

INSTANTIATE_TEST_SUITE_P(Catalog, EveryCollective,
                         ::testing::Combine(::testing::ValuesIn(names_of_collectives()),
                                            ::testing::Range(1, 10)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace topknot::testing

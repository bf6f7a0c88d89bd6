// SPDX-License-Identifier: Apache-2.0
//
// Every line of the catalog is held to the law the moment it is listed.
#include "contract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "copy_of.h"
#include "ranks.h"

namespace topknot::testing {
namespace {

// Under a sanitizer everything takes ten times as long; the numbers of ranks are the ones at
// which algorithms differ: alone, a pair, odd, and many.
#ifdef TOPKNOT_SANITIZED
const auto kRanks = ::testing::Values(1, 2, 3);
const auto kManyRanks = ::testing::Values(16);
#else
const auto kRanks = ::testing::Range(1, 10);
const auto kManyRanks = ::testing::Values(16, 33);
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

TEST_P(EveryCollective, LosesNothingInAnyCodingAndKeepsTheErrorsOfRounding) {
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
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse(name()), link, *compressor, layout);
    std::vector<float> residual(n);
    std::vector<float> sum(n);
    made->reduce(residual, copy_of(gradient(c, link.rank(), 0)), n, sum);
    std::vector<float> expected(n);
    for (int r = 0; r < ranks(); ++r) {
      const std::vector<float> g = gradient(c, r, 0);
      for (std::size_t i = 0; i < n; ++i) expected[i] += g[i];
    }
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(residual, std::vector<float>(n));
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
    const auto compressor =
        make_compressor(Spec::parse(default_compressor(name())), layout);
    const auto made = make_collective(Spec::parse(name()), link, *compressor, layout);
    std::vector<float> residual = gradient(c, link.rank(), -1);
    for (int step = 0; step < 8; ++step) {
      const std::vector<float> before = residual;
      std::vector<float> grad = gradient(c, link.rank(), step);
      const bool nonfinite = step % 2 == 0;
      if (nonfinite && link.rank() == step / 2 % ranks())
        grad[static_cast<std::size_t>(step) * 41 % n] = bad[step % 3];
      std::vector<float> sum(n);
      const Reduced reduced = made->reduce(residual, grad, c.k, sum);
      EXPECT_EQ(reduced.finite, !nonfinite)
          << "step " << step << " at rank " << link.rank();
      if (nonfinite) {
        EXPECT_EQ(residual, before) << "step " << step << " at rank " << link.rank();
      }
    }
  });
}

TEST_P(EveryCollective, CallsASumThatOverflowsNonfinite) {
  if (ranks() == 1) GTEST_SKIP() << "one rank adds nothing up";
  const std::size_t n = 50;
  run(ranks(), [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto compressor =
        make_compressor(Spec::parse(default_compressor(name())), layout);
    const auto made = make_collective(Spec::parse(name()), link, *compressor, layout);
    std::vector<float> residual(n);
    std::vector<float> grad(n, std::numeric_limits<float>::max());
    EXPECT_FALSE(made->reduce(residual, grad, n, grad).finite);
    EXPECT_EQ(residual, std::vector<float>(n));
  });
}

// Whatever is kept from step to step is then some steps old; and the scale jumps.
TEST_P(EveryCollective, AgreesOnWhatItPromisesOnLaterSteps) {
  std::vector<Case> cases;
  for (const std::size_t n : {std::size_t{37}, std::size_t{1000}})
    for (const std::size_t k : {std::size_t{1}, std::size_t{8}, n / 10, n / 2})
      for (const Data data : {Data::signs, Data::random, Data::jumps})
        cases.push_back({.collective = name(),
                         .compressor = std::string(default_compressor(name())),
                         .n = n,
                         .k = k,
                         .data = data,
                         .steps = 14});
  hold(cases);
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
                                            kManyRanks),
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

// ---- that the contract can be broken

/// Keeps the law and agrees on too little: unless everything is wanted, what `cut` leaves
/// of k, chosen by topka.
class Planted final : public Collective {
 public:
  Planted(std::unique_ptr<Collective> topka, std::size_t (*cut)(std::size_t))
      : topka_(std::move(topka)), cut_(cut) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    return topka_->reduce(residual, grad, k < residual.size() ? cut_(k) : k, sum);
  }

 private:
  std::unique_ptr<Collective> topka_;
  std::size_t (*cut_)(std::size_t);
};

/// Selects the k smallest.
class Smallest final : public Compressor {
 public:
  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    for (std::size_t i = 0; i < grad.size(); ++i)
      grad[i] = std::exchange(residual[i], residual[i] + grad[i]);
    std::vector<std::uint32_t> order(residual.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {},
                             [&](std::uint32_t i) { return std::abs(residual[i]); });
    order.resize(std::min(k, order.size()));
    std::ranges::sort(order);
    out.clear();
    for (const std::uint32_t i : order) out.push_back(i, residual[i]);
    return true;
  }
};

/// What the contract says of topka made by `make`, on `data`.
std::string verdict(Data data, const Maker& make) {
  const Case c{.collective = "topka", .n = 1000, .k = 30, .data = data};
  std::string said = "nothing";
  run(3, [&](Transport& link) {
    const auto wrong = violation(c, link, make);
    if (wrong) said = *wrong;  // rank 0 alone sees these
  });
  return said;
}

template <std::size_t (*Cut)(std::size_t)>
std::unique_ptr<Collective> planted(const Case& c, Transport& link,
                                    Compressor& compressor, const Layout& layout) {
  return std::make_unique<Planted>(from_the_catalog(c, link, compressor, layout), Cut);
}
std::size_t to_nothing(std::size_t) { return 0; }
std::size_t to_half(std::size_t k) { return k / 2; }
std::size_t by_one(std::size_t k) { return k - 1; }

TEST(Contract, CatchesACollectiveThatAgreesOnNothing) {
  for (const Data data : kAllData) {
    const std::string expected =
        data == Data::zeros ? "nothing"
                            : "agreed on 0 coordinates, not on the 30 that are promised";
    EXPECT_EQ(verdict(data, planted<to_nothing>), expected) << static_cast<int>(data);
  }
}

TEST(Contract, CatchesACollectiveThatAgreesOnTooLittle) {
  EXPECT_EQ(verdict(Data::equal, planted<to_half>),
            "agreed on 15 coordinates, not on the 30 that are promised");
  EXPECT_EQ(verdict(Data::equal, planted<by_one>),
            "agreed on 29 coordinates, not on the 30 that are promised");
  EXPECT_EQ(verdict(Data::equal, from_the_catalog), "nothing");
}

TEST(Contract, CatchesACollectiveThatAgreesOnWhatIsSmall) {
  Smallest smallest;
  const Maker make = [&](const Case& c, Transport& link, Compressor&,
                         const Layout& layout) {
    return make_collective(Spec::parse(c.collective), link, smallest, layout);
  };
  EXPECT_TRUE(verdict(Data::signs, make).starts_with("agreed on a mass of "));
  EXPECT_TRUE(verdict(Data::one_huge, make).starts_with("agreed on a mass of "));
  EXPECT_EQ(verdict(Data::signs, from_the_catalog), "nothing");
}

}  // namespace
}  // namespace topknot::testing

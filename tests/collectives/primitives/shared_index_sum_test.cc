// SPDX-License-Identifier: Apache-2.0
//
// What exdyna, micro, deft and cltk promise alike.
#include "collectives/primitives/shared_index_sum.h"

#include <gtest/gtest.h>

#include <mutex>

#include "collectives/training.h"
#include "contract.h"
#include "core/awkward.h"

namespace topknot::testing {
namespace {

const char* const kFamily[] = {"exdyna", "micro", "deft", "cltk"};

struct Kind {
  const char* name;
  Gradient gradient;
  bool even;  // nothing that a mean would not be close to
};
const Kind kKinds[] = {{"correlated", correlated, true},
                       {"uncorrelated", uncorrelated, true},
                       {"skewed", skewed, false}};

Layout three_tensors(std::uint64_t n) {
  return {{{"a", 0, {n / 2}},
           {"b", n / 2, {n / 8}},
           {"c", n / 2 + n / 8, {n - n / 2 - n / 8}}}};
}

class EachOfTheFamily : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name() const { return GetParam(); }
};

TEST_P(EachOfTheFamily, SendsNoMoreThanItsBoundOnAnyStep) {
  const std::uint64_t k = 403;  // a multiple of none of them
  for (const std::uint64_t p : {2, 3, 4, 8, 16})
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(std::string(kind.name) + ", P=" + std::to_string(p));
      const auto steps = train({.collective = name() + ":coding=plain",
                                .layout = three_tensors(20000),
                                .k = k,
                                .ranks = static_cast<int>(p),
                                .steps = 6,
                                .gradient = kind.gradient});
      const std::uint64_t rounded = (k + p - 1) / p * p;
      const std::uint64_t tree = std::bit_width(p - 1);  // how often a root sends
      const std::uint64_t bound =
          (name() == "cltk" ? k * tree : rounded) + 2 * rounded / p * (p - 1);
      for (const Outcome& step : steps) {
        std::uint64_t all = 0;
        for (const Sent& sent : step.sent) {
          EXPECT_LE(sent.words(), bound);
          all += sent.words();
        }
        const double expected = 3.0 * k * static_cast<double>(p - 1);
        if (kind.even) {
          EXPECT_NEAR(static_cast<double>(all), expected, 0.02 * expected);
        }
      }
    }
}

// Besides what is shared, a plan, or two rounds of counters once the threshold is known.
TEST_P(EachOfTheFamily, SendsFewMessages) {
  const auto steps = train({.collective = name(),
                            .layout = three_tensors(20000),
                            .k = 2000,
                            .ranks = 8,
                            .steps = 30,
                            .gradient = uncorrelated});
  const int shared = name() == "cltk" ? 3 + 2 * 7 : 3 * 7;
  // Eight ranks agree on a threshold by two messages to each other one.
  const int agreed = name() == "cltk" ? 0 : name() == "deft" ? 3 : 2 * 7;
  int worse = 0;
  for (std::size_t s = 20; s < 30; ++s) {
    std::uint64_t most = 0;
    for (const Sent& sent : steps[s].sent) most = std::max(most, sent.messages);
    worse += most > static_cast<std::uint64_t>(shared + agreed) ? 1 : 0;
  }
  EXPECT_LE(worse, 2);
}

/// That every rank settled what was agreed on, and nothing else, and the sum has all of it.
void expect_agreed(const Outcome& step) {
  const std::size_t ranks = step.settled.size();
  for (std::size_t r = 0; r < ranks; ++r) {
    auto settled = step.settled[r];
    std::sort(settled.begin(), settled.end());
    ASSERT_EQ(settled, step.index);
    for (std::size_t i = 0; i < step.sum.size(); ++i) {
      const bool agreed = std::binary_search(step.index.begin(), step.index.end(), i);
      ASSERT_EQ(step.residual[r][i], agreed ? 0.0F : step.folded[r][i]);
    }
  }
  for (const std::uint32_t i : step.index) {
    float sum = 0;  // in rank order
    for (std::size_t r = 0; r < ranks; ++r) sum += step.folded[r][i];
    ASSERT_EQ(step.sum[i], sum);
  }
}

TEST_P(EachOfTheFamily, SettlesTheSamePositionsOnEveryRank) {
  const auto steps = train({.collective = name(),
                            .layout = three_tensors(3001),
                            .k = 100,
                            .ranks = 5,
                            .steps = 7,
                            .gradient = uncorrelated});
  for (const Outcome& step : steps) {
    EXPECT_EQ(step.index.size(), 100U);
    expect_agreed(step);
  }
}

TEST_P(EachOfTheFamily, AgreesOnVectorsThatAreHardToSelectFrom) {
  for (const Awkward& kind : kAwkward)
    for (const std::size_t k : {40U, 2000U}) {
      SCOPED_TRACE(std::string(kind.name) + ", k = " + std::to_string(k));
      const std::size_t n = 3001;
      const auto steps = train(
          {.collective = name(),
           .layout = three_tensors(n),
           .k = k,
           .ranks = 3,
           .steps = 3,
           .gradient = [&](int rank, int step, std::size_t i) {
             core::Random random(static_cast<std::uint64_t>(10 * step + rank), 8 * i);
             const float magnitude = kind.draw(random, i, n);
             return (i + static_cast<std::size_t>(rank)) % 2 == 0 ? magnitude
                                                                  : -magnitude;
           }});
      for (const Outcome& step : steps) {
        EXPECT_LE(step.index.size(), k);
        expect_agreed(step);
        if (HasFatalFailure()) return;
      }
      const auto zeros = [](const std::vector<float>& x) {
        return std::find(x.begin(), x.end(), 0.0F) != x.end();
      };
      if (std::none_of(steps[0].folded.begin(), steps[0].folded.end(), zeros)) {
        EXPECT_EQ(steps[0].index.size(), k);
      }
    }
}

TEST_P(EachOfTheFamily, SendsNothingThatIsZero) {
  const auto steps = train({.collective = name(),
                            .layout = three_tensors(500),
                            .k = 50,
                            .ranks = 4,
                            .steps = 9,
                            .gradient = [](int, int step, std::size_t i) {
                              return step % 3 == 2 && i % 100 == 7 ? 2.0F : 0.0F;
                            }});
  if (name() == "cltk") GTEST_SKIP() << "its compressor decides";
  for (std::size_t s = 0; s < steps.size(); ++s)
    EXPECT_EQ(steps[s].index.size(), s % 3 == 2 ? 5U : 0U) << "step " << s;
}

#ifdef TOPKNOT_SANITIZED  // where dozens of threads take minutes
constexpr int kMany[] = {16};
#else
constexpr int kMany[] = {16, 33};
#endif

TEST_P(EachOfTheFamily, KeepsTheLawOnManyRanks) {
  for (const int ranks : kMany) {
    std::mutex mutex;
    run(ranks, [&](Transport& link) {
      int channel = 0;
      for (const char* values : {"f32", "bf16", "i8"})
        for (const std::size_t n : {std::size_t{17}, std::size_t{1000}})
          for (const std::size_t k : {std::size_t{1}, n / 10, n})
            for (const Data data : kAllData) {
              const Case c{.collective = name() + ":values=" + values,
                           .n = n,
                           .k = k,
                           .data = data,
                           .steps = 2};
              const auto part = link.channel(channel++);
              const auto wrong = violation(c, *part);
              if (!wrong) continue;
              const std::scoped_lock lock(mutex);
              ADD_FAILURE() << c.str(ranks) << ": " << *wrong;
            }
    });
  }
}

TEST_P(EachOfTheFamily, TellsEveryoneOfASumThatOverflowsInRoundedValues) {
  for (const char* values : {"bf16", "i8", "i2"})
    run(3, [&](Transport& link) {
      const Layout layout = Layout::flat(40);
      const auto part = link.channel(values[0] == 'b' ? 0 : values[1]);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto made = make_collective(Spec::parse(name() + ":values=" + values), *part,
                                        *compressor, layout);
      std::vector<float> residual(40, 1.0F);
      std::vector<float> grad(40, 0.0F);
      grad[11] = 3e38F;
      EXPECT_FALSE(made->reduce(residual, grad, 40, grad).finite) << values;
    });
}

TEST_P(EachOfTheFamily, GoesOnFromASavedState) {
  expect_goes_on_from_saved_state(name(), three_tensors(2000), skewed);
}

INSTANTIATE_TEST_SUITE_P(Catalog, EachOfTheFamily, ::testing::ValuesIn(kFamily),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "copy_of.h"
#include "trials.h"

namespace topknot::testing {
namespace {

const std::vector<std::string> kSchedules = {"gtopk:schedule=butterfly",
                                             "gtopk:schedule=tree"};

TEST(GTopk, KeepsTheLawOnAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks) hold_to_the_law(kSchedules[1], ranks);
  for (const std::string& schedule : kSchedules)
    for (const int ranks : {16, 33}) hold_to_the_law(schedule, ranks);
}

TEST(GTopk, KeepsWhatRoundingTakesOff) {
  for (const std::string& schedule : kSchedules)
    for (const int ranks : {3, 4, 7, 16, 33})
      for (const char* values : {",values=bf16", ",values=i8"})
        hold_to_the_law(schedule + values, ranks);
}

TEST(GTopk, KeepsWhatTwoBitsTakeOff) {
  for (const std::string& schedule : kSchedules)
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33})
      hold_to_the_law_with_2_bits(schedule + ",values=i2", ranks);
}

TEST(GTopk, AppliesAStepOnAllRanksOrOnNone) {
  for (const std::string& schedule : kSchedules)
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 9, 16})
      hold_nonfinite_steps(schedule + ",values=i8", ranks);
}

TEST(GTopk, LosesNothingWithARank) {
  for (const std::string& schedule : kSchedules)
    for (const int ranks : {2, 3, 4, 5}) hold_a_lost_rank(schedule, ranks);
}

TEST(GTopk, GivesOneRankItsOwnSelection) {
  for (const std::string& schedule : kSchedules)
    run(1, [&](Transport& link) {
      const Layout layout = Layout::flat(4);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto made = make_collective(Spec::parse(schedule), link, *compressor, layout);
      std::vector<float> residual(4);
      std::vector<float> sum(4);
      made->reduce(residual, copy_of(std::vector<float>{1, -4, 3, 2}), 2, sum);
      EXPECT_EQ(sum, (std::vector<float>{0, -4, 3, 0}));
      EXPECT_EQ(residual, (std::vector<float>{1, 0, 0, 2}));
    });
}

// Rank r has r + 1 at coordinate r, and one coordinate survives.
TEST(GTopk, LeavesWhatIsDroppedToTheLowestThatDropsIt) {
  for (const std::string& schedule : kSchedules) {
    std::vector<std::vector<float>> residuals(4);
    std::vector<std::vector<std::uint32_t>> settled(4);
    run(4, [&](Transport& link) {
      const auto me = static_cast<std::size_t>(link.rank());
      const Layout layout = Layout::flat(4);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto made = make_collective(Spec::parse(schedule), link, *compressor, layout);
      std::vector<float> residual(4);
      residual[me] = static_cast<float>(me + 1);
      std::vector<float> sum(4);
      const Reduced reduced = made->reduce(residual, {}, 1, sum);
      EXPECT_EQ(sum, (std::vector<float>{0, 0, 0, 4}));
      residuals[me] = residual;
      settled[me].assign(reduced.settled.begin(), reduced.settled.end());
    });
    EXPECT_EQ(residuals[0], (std::vector<float>{1, 2, 0, 0}));  // 2 was rank 1's
    EXPECT_EQ(residuals[1], (std::vector<float>{0, 0, 0, 0}));
    EXPECT_EQ(residuals[2], (std::vector<float>{0, 0, 3, 0}));
    EXPECT_EQ(residuals[3], (std::vector<float>{0, 0, 0, 0}));
    EXPECT_EQ(settled, (std::vector<std::vector<std::uint32_t>>{{}, {1}, {}, {3}}));
  }
}

TEST(GTopk, CutsEqualValuesEquallyEverywhere) {
  for (const std::string& schedule : kSchedules)
    run(7, [&](Transport& link) {
      const Layout layout = Layout::flat(20);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto made = make_collective(Spec::parse(schedule), link, *compressor, layout);
      std::vector<float> residual(20, link.rank() % 2 == 0 ? 1.0F : -1.0F);
      std::vector<float> sum(20);
      const Reduced reduced = made->reduce(residual, {}, 3, sum);
      EXPECT_EQ(std::vector(reduced.index.begin(), reduced.index.end()),
                (std::vector<std::uint32_t>{0, 1, 2}));
    });
}

/// The magnitude that one step loses, over what it sends, by the given rule.
double lost_share(const std::string& collective, int ranks) {
  const std::size_t n = 20000;
  const std::size_t k = 200;
  std::vector<double> balance(n);
  double sent = 0;
  std::mutex mutex;
  run(ranks, [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse(collective), link, *compressor, layout);
    const Case c{.collective = collective, .n = n, .k = k};
    const std::vector<float> before = gradient(c, link.rank(), 0);
    std::vector<float> residual = before;
    std::vector<float> sum(n);
    made->reduce(residual, {}, k, sum);
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < n; ++i) {
      balance[i] += before[i] - residual[i] - (link.rank() == 0 ? sum[i] : 0);
      if (link.rank() == 0) sent += std::abs(sum[i]);
    }
  });
  double lost = 0;
  for (const double b : balance) lost += std::abs(b);
  return lost / sent;
}

TEST(GTopk, LosesGradientOnlyByThePublishedRule) {
  EXPECT_EQ(lost_share("gtopk:faithful=1", 2), 0);  // nothing comes in by another branch
  for (const char* schedule : {"", ",schedule=tree"})
    for (const int ranks : {4, 8, 16}) {
      EXPECT_GT(lost_share("gtopk:faithful=1" + std::string(schedule), ranks), 0.005);
      EXPECT_EQ(lost_share("gtopk:faithful=0" + std::string(schedule), ranks), 0);
    }
}

TEST(GTopk, TakesLogPMessages) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const auto butterfly =
        sent_by("gtopk", ranks, 100, 5, Shape::uncorrelated, /*steps=*/1)[0];
    std::uint64_t most = 0;
    for (const Traffic& traffic : butterfly) most = std::max(most, traffic.messages());
    EXPECT_EQ(most, log2_up(ranks)) << ranks << " ranks";

    const auto tree =
        sent_by("gtopk:schedule=tree", ranks, 100, 5, Shape::uncorrelated, 1)[0];
    std::uint64_t all = 0;
    for (const Traffic& traffic : tree) {
      all += traffic.messages();
      EXPECT_LE(traffic.messages(), log2_up(ranks)) << ranks << " ranks";
    }
    EXPECT_EQ(all, 2 * static_cast<std::uint64_t>(ranks - 1));
  }
}

TEST(GTopk, StaysWithinItsBound) {
  const std::size_t k = 100;
  for (const std::string& schedule : kSchedules)
    for (const int ranks : {2, 3, 4, 8, 16})
      for (const Shape shape : kAllShapes)
        for (const auto& step :
             sent_by(schedule + ",coding=plain", ranks, 10000, k, shape, 4))
          for (const Traffic& traffic : step)
            EXPECT_LE(traffic.bytes() - 32 * traffic.messages(),
                      4 * 2 * k * log2_up(ranks))
                << schedule << ", " << ranks << " ranks";
}

TEST(GTopk, CutsWhatACompressorGivesBeyondK) {
  run(3, [&](Transport& link) {
    const auto traffic = std::make_shared<Traffic>();
    const auto metered = make_metered(link.channel(0), traffic);
    const Layout layout = Layout::flat(1000);
    const auto compressor = make_compressor(Spec::parse("threshold:value=0.001"), layout);
    const auto made =
        make_collective(Spec::parse("gtopk:coding=plain"), *metered, *compressor, layout);
    std::vector<float> residual(1000, 1.0F);
    std::vector<float> sum(1000);
    EXPECT_EQ(made->reduce(residual, {}, 10, sum).count, 10u);
    EXPECT_LE(traffic->bytes(), traffic->messages() * (32 + 8 * 10));
  });
}

}  // namespace
}  // namespace topknot::testing

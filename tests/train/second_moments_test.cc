// SPDX-License-Identifier: Apache-2.0
#include "train/second_moments.h"

#include <gtest/gtest.h>

#include <limits>

#include "ranks.h"

namespace topknot::train {
namespace {

using topknot::testing::run;

/// One rank's model of six weights and two biases, with an optimizer.
struct Rank {
  Rank(Transport& link, const char* name, int local_steps = 4)
      : model(torch::nn::LinearOptions(3, 2)),
        replica(*model, link, {}),
        optimizer(make_optimizer(Spec::parse(name), replica.sizes())),
        moments(*optimizer, replica, link, local_steps) {}

  torch::nn::Linear model;
  Replica replica;
  std::unique_ptr<Optimizer> optimizer;
  SecondMoments moments;
};

TEST(SecondMoments, AreAveragedEverySixtyFourRounds) {
  for (const int ranks : {1, 2, 3})
    run(ranks, [&](Transport& link) {
      Rank rank(link, "adamw");
      const auto own = static_cast<float>(1 + link.rank());
      for (std::size_t i = 0; i < 2; ++i)
        for (float& square : *rank.optimizer->second_moment(i)) square = own;
      EXPECT_EQ(rank.moments.after_round(63), 0U);
      EXPECT_EQ(rank.optimizer->second_moment(0)->at(5), own);
      EXPECT_EQ(rank.moments.after_round(64) > 0, ranks > 1);
      const float mean = static_cast<float>(1 + ranks) / 2;
      EXPECT_EQ(*rank.optimizer->second_moment(0), std::vector<float>(6, mean));
      EXPECT_EQ(*rank.optimizer->second_moment(1), std::vector<float>(2, mean));
      EXPECT_EQ(rank.optimizer->slot(0, 0), std::vector<float>(6)) << "means stay";
    });
}

TEST(SecondMoments, StayEachRanksOwnWhereOneIsNotFinite) {
  run(2, [](Transport& link) {
    Rank rank(link, "adam");
    std::vector<float>& squares = *rank.optimizer->second_moment(0);
    squares[1] = 4;
    if (link.rank() == 1) squares[0] = std::numeric_limits<float>::infinity();
    const std::vector<float> before = squares;
    rank.moments.after_round(64);
    EXPECT_EQ(squares, before);
  });
}

// Three rows and eight weights: with 96 steps a round they are due after each.
TEST(SecondMoments, HaveTheMeanOfAllRanksInEachRowAfterARound) {
  run(3, [](Transport& link) {
    Rank rank(link, "adam", 96);
    ASSERT_EQ(rank.moments.rows_every(), 1U);
    const auto own = static_cast<float>(1 + link.rank());
    const float seen = link.rank() == 2 ? 3 : 0;
    *rank.optimizer->second_moment(0) = {own, 2 * own, 3 * own, seen, seen, seen};
    EXPECT_GT(rank.moments.after_round(1), 0U);
    const std::vector<float> squares = *rank.optimizer->second_moment(0);
    const std::vector<float> wanted = {2, 4, 6, 1, 1, 1};
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_FLOAT_EQ(squares[i], wanted[i]) << i;
    EXPECT_EQ(*rank.optimizer->second_moment(1), std::vector<float>(2)) << "nothing seen";
  });
}

TEST(SecondMoments, OfShortRowsAreAveragedAfterMoreRounds) {
  run(2, [](Transport& link) {
    Rank rank(link, "adam", 4);
    const std::uint64_t every = rank.moments.rows_every();
    EXPECT_EQ(every, 24U);  // 512 * 3 rows / (2 * 8 weights * 4 steps)
    EXPECT_EQ(rank.moments.after_round(every - 1), 0U);
    EXPECT_GT(rank.moments.after_round(every), 0U);
  });
}

TEST(SecondMoments, OfARowSurviveTheSmallestAndTheLargestSquares) {
  run(2, [](Transport& link) {
    Rank rank(link, "adam", 96);
    constexpr float kTiny = std::numeric_limits<float>::denorm_min();
    constexpr float kLarge = 1e30F;
    std::vector<float>& squares = *rank.optimizer->second_moment(0);
    squares = {kTiny, kTiny, kTiny, kTiny, kTiny, kTiny};
    if (link.rank() == 1) std::fill_n(squares.begin(), 3, kLarge);
    rank.moments.after_round(1);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(squares[i], kLarge / 2, kLarge / 100);
    for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(squares[i], kTiny);
  });
}

TEST(SecondMoments, CostNothingWhereThereAreNone) {
  run(2, [](Transport& link) {
    Rank rank(link, "sgd:momentum=0.9");
    EXPECT_EQ(rank.moments.after_round(64), 0U);
  });
}

}  // namespace
}  // namespace topknot::train

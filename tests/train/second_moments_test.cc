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
  Rank(Transport& link, const char* name)
      : model(torch::nn::LinearOptions(3, 2)),
        replica(*model, link, {}),
        optimizer(make_optimizer(Spec::parse(name), replica.sizes())),
        moments(*optimizer, replica, link) {}

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

TEST(SecondMoments, CostNothingWhereThereAreNone) {
  run(2, [](Transport& link) {
    Rank rank(link, "sgd:momentum=0.9");
    EXPECT_EQ(rank.moments.after_round(64), 0U);
  });
}

}  // namespace
}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "core/names.h"

#include <gtest/gtest.h>

namespace topknot::core {
namespace {

using Names = std::vector<std::string>;

TEST(Nearest, IsWhatTwoEditsReach) {
  EXPECT_EQ(nearest("oktopc", {"dense", "oktopk", "topka"}), Names{"oktopk"});
  EXPECT_EQ(nearest("quikstrat", {"quickstart", "lstm-an4"}), Names{"quickstart"});
  EXPECT_EQ(nearest("lsit", {"list", "train", "bench"}), Names{"list"});
  EXPECT_EQ(nearest("--nn", {"--json", "--n"}), Names{"--n"});
}

TEST(Nearest, OfAShortWordIsWhatOneEditReaches) {
  EXPECT_EQ(nearest("vai", {"values", "via"}), Names{"via"});  // a swap is one
  EXPECT_EQ(nearest("lr", {"pad", "clip", "n"}), Names{});
  EXPECT_EQ(nearest("x", {"n", "y"}), Names{});  // which would be another word altogether
}

TEST(Nearest, HasAllThatAreAsNear) {
  EXPECT_EQ(nearest("vgg16", {"lstm-an4", "vgg16-cifar10", "vgg16-cifar100"}),
            (Names{"vgg16-cifar10", "vgg16-cifar100"}));
  EXPECT_EQ(nearest("conv3d", {"conv2d", "conv1d", "none"}), (Names{"conv2d", "conv1d"}));
}

TEST(Nearest, IsElseWhatSharesAPart) {
  EXPECT_EQ(nearest("num_workers", {"workers", "batch"}), Names{"workers"});
  EXPECT_EQ(nearest("batch-size", {"workers", "batch"}), Names{"batch"});
}

TEST(Nearest, IsNothingWhereNothingIsNear) {
  EXPECT_EQ(nearest("--epochs", {"--out", "--set"}), Names{});
  EXPECT_EQ(nearest("vgg16", {"lstm-an4", "quickstart"}), Names{});
  EXPECT_EQ(nearest("learning_rate", {"rotate", "lr", "warmup"}), Names{});
  EXPECT_EQ(nearest("", {"abc", "d"}), Names{});
  EXPECT_EQ(nearest("anything", {}), Names{});
}

TEST(Suggestion, NamesTheNearestOrAllThereAre) {
  EXPECT_EQ(suggestion("knott", {"dense", "knot"}), "; nearest is knot");
  EXPECT_EQ(suggestion("vgg", {"vgg11", "vgg16", "mlp"}),
            "; nearest are vgg11 and vgg16");
  EXPECT_EQ(suggestion("ring", {"dense", "topka", "knot"}),
            "; there are dense, topka and knot");
  EXPECT_EQ(suggestion("width", {"hidden"}), "; there is hidden");
  EXPECT_EQ(suggestion("width", {}), "");
}

TEST(SameName, TakesHyphensForUnderscores) {
  EXPECT_TRUE(same_name("adtopk-threshold", "adtopk_threshold"));
  EXPECT_TRUE(same_name("knot", "knot"));
  EXPECT_FALSE(same_name("knot", "knots"));
  EXPECT_FALSE(same_name("Knot", "knot"));
}

}  // namespace
}  // namespace topknot::core

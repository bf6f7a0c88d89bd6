// SPDX-License-Identifier: Apache-2.0
#include "train/models/registry.h"

#include <gtest/gtest.h>

#include "job/models.h"
#include "refusal.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

constexpr data::ImageShape kMnist{1, 28, 28};
constexpr data::ImageShape kCifar{3, 32, 32};
constexpr data::ImageShape kImageNet{3, 224, 224};

std::shared_ptr<Network> made(std::string_view name, const data::ImageShape& image,
                              int classes) {
  return make_model<made_for::images>(Spec::parse(name), NetworkShape{image, classes});
}

std::int64_t weights_of(const char* name, const data::ImageShape& image, int classes) {
  const auto network = made(name, image, classes);
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : network->parameters()) count += parameter.numel();
  return count;
}

TEST(Models, HaveAsManyWeightsAsThePapersSay) {
  EXPECT_EQ(weights_of("vgg16", kCifar, 10), 14'728'266);
  EXPECT_EQ(weights_of("vgg16", kCifar, 100), 14'774'436);
  EXPECT_EQ(weights_of("resnet20", kCifar, 10), 269'722);
  EXPECT_EQ(weights_of("resnet18", kCifar, 10), 11'173'962);
  EXPECT_EQ(weights_of("resnet50", kCifar, 100), 23'705'252);
  EXPECT_EQ(weights_of("resnet18", kImageNet, 1000), 11'689'512);
  EXPECT_EQ(weights_of("resnet50", kImageNet, 1000), 25'557'032);
  EXPECT_EQ(weights_of("cnn", kMnist, 10), 962'926);
  EXPECT_EQ(weights_of("mlp", kMnist, 10), 784 * 128 + 128 + 128 * 128 + 128 + 1290);
}

TEST(Models, GiveOneLogitForEachClass) {
  for (const ModelEntry& model : models()) {
    if (model.task != "images") continue;
    const auto network = made(model.name, kCifar, 7);
    const torch::Tensor logits = network->forward(torch::zeros({2, 3, 32, 32}));
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 7})) << model.name;
  }
}

TEST(Models, StartFromTheSeedAlone) {
  const auto bits = [](std::uint64_t seed) {
    const auto network = made("cnn", kMnist, 10);
    initialise(*network, seed);
    return torch::cat([&] {
      std::vector<torch::Tensor> flat;
      for (const torch::Tensor& one : network->parameters())
        flat.push_back(one.flatten());
      return flat;
    }());
  };
  EXPECT_TRUE(bits(1).equal(bits(1)));
  EXPECT_FALSE(bits(1).equal(bits(2)));
}

TEST(Models, RefuseWhatTheyCannotSee) {
  EXPECT_REFUSAL(made("vgg16", kMnist, 10), ConfigError,
                 "The model vgg16 halves an image five times: it needs at least 32 x 32 "
                 "pixels; take cnn for smaller ones.");
  EXPECT_REFUSAL(made("resnet21", kCifar, 10), ConfigError,
                 "There is no model named resnet21; nearest is resnet20.");
  EXPECT_REFUSAL(made("mlp:width=3", kCifar, 10), ConfigError,
                 "mlp has no parameter width; there is hidden.");
}

TEST(Models, AreMadeForOneTask) {
  EXPECT_REFUSAL(made("lstm", kCifar, 10), ConfigError,
                 "The model lstm is for the task language.");
}

}  // namespace
}  // namespace topknot::train

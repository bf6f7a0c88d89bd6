// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "data/images.h"
#include "refusal.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels image(const Images& set, std::size_t i) {
  Pixels pixels(set.shape().size());
  set.read(i, pixels);
  return pixels;
}

std::uint64_t digest(const Pixels& pixels) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::uint8_t p : pixels) hash = (hash ^ p) * 1099511628211ULL;
  return hash;
}

TEST(GeneratedImages, HaveCifarsGeometryUnlessTold) {
  const auto set = open_images("generated", {}, Split::train);
  EXPECT_EQ(set->size(), 50'000U);
  EXPECT_EQ(set->classes(), 10);
  EXPECT_EQ(set->shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(open_images("generated", {}, Split::test)->size(), 10'000U);
  const auto other =
      open_images("generated:classes=7,size=100,channels=1,side=28", {}, Split::test);
  EXPECT_EQ(other->size(), 20U);
  EXPECT_EQ(other->classes(), 7);
  EXPECT_EQ(other->shape(), (ImageShape{1, 28, 28}));
}

TEST(GeneratedImages, AreTheSameBytesOnEveryMachine) {
  const auto set = open_images("generated", {}, Split::train);
  EXPECT_EQ(digest(image(*set, 0)), 6027078042553075575ULL);
  EXPECT_EQ(digest(image(*set, 49'999)), 14302078737695168771ULL);
}

TEST(GeneratedImages, DependOnSeedHalfAndNumberOnly) {
  const auto set = open_images("generated:seed=5", {}, Split::train);
  const auto same = open_images("generated:seed=5,size=60", {}, Split::train);
  const auto seed = open_images("generated:seed=6", {}, Split::train);
  const auto half = open_images("generated:seed=5", {}, Split::test);
  EXPECT_EQ(image(*set, 7), image(*same, 7));
  EXPECT_EQ(set->label(7), same->label(7));
  EXPECT_NE(image(*set, 7), image(*set, 8));
  EXPECT_NE(image(*set, 7), image(*seed, 7));
  EXPECT_NE(image(*set, 7), image(*half, 7));
}

TEST(GeneratedImages, HaveAllClassesAboutAsOften) {
  const auto set = open_images("generated", {}, Split::train);
  std::vector<int> counts(10);
  for (std::size_t i = 0; i < set->size(); ++i) ++counts[set->label(i)];
  for (const int count : counts) EXPECT_NEAR(count, 5000, 350);
}

TEST(GeneratedImages, AreNormalisedByWhatIsSaidOfThem) {
  const auto set = open_images("generated", {}, Split::train);
  double sum = 0, squares = 0, n = 0;
  for (std::size_t i = 0; i < 500; ++i)
    for (const std::uint8_t p : image(*set, i)) {
      sum += p;
      squares += p * p;
      ++n;
    }
  const Normalisation normal = normalisation("generated:seed=9");
  EXPECT_NEAR(sum / n / 255, normal.mean[0], 0.02);
  EXPECT_NEAR(std::sqrt(squares / n - sum / n * sum / n) / 255, normal.deviation[0],
              0.02);
}

// Whoever compares with the mean of each class is right more often than by chance but not
// often: the classes differ by shapes, not by pixels.
TEST(GeneratedImages, AreNotToldApartByTheirMeans) {
  const auto train = open_images("generated", {}, Split::train);
  const auto test = open_images("generated", {}, Split::test);
  const std::size_t size = train->shape().size();
  std::vector<std::vector<double>> means(10, std::vector<double>(size));
  std::vector<double> counts(10);
  for (std::size_t i = 0; i < 3000; ++i) {
    const Pixels pixels = image(*train, i);
    auto& mean = means[static_cast<std::size_t>(train->label(i))];
    for (std::size_t p = 0; p < size; ++p) mean[p] += pixels[p];
    ++counts[train->label(i)];
  }
  int right = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    const Pixels pixels = image(*test, i);
    int best = 0;
    double least = INFINITY;
    for (int c = 0; c < 10; ++c) {
      double distance = 0;
      for (std::size_t p = 0; p < size; ++p) {
        const double d = pixels[p] - means[c][p] / counts[c];
        distance += d * d;
      }
      if (distance < least) least = distance, best = c;
    }
    right += best == test->label(i) ? 1 : 0;
  }
  EXPECT_GT(right, 75);
  EXPECT_LT(right, 300);
}

TEST(GeneratedImages, RefuseAParameterTheyDoNotHave) {
  EXPECT_REFUSAL(open_images("generated:sized=5", {}, Split::train), ConfigError,
                 "generated has no parameter sized; nearest is size (of classes, size, "
                 "seed, channels, noise, side).");
  EXPECT_REFUSAL(open_images("generated:classes=1", {}, Split::train), ConfigError,
                 "classes=1 is not in 2..1000.");
  EXPECT_REFUSAL(open_images("mnist:seed=1", {}, Split::train), ConfigError,
                 "mnist has no parameter seed; it has none at all.");
  EXPECT_REFUSAL(open_images("cifar11", {}, Split::train), ConfigError,
                 "There is no set of images cifar11; nearest is cifar10.");
  EXPECT_REFUSAL(normalisation("cifar11"), ConfigError,
                 "There is no set of images cifar11; nearest is cifar10.");
}

}  // namespace
}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "data/refusals.h"
#include "data/write_sets.h"

namespace topknot::data {
namespace {

TEST(Cifar10, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  write_cifar10(folder.path(), 3);
  const auto wanted = images_like(3, 32, 10, 18);
  ByteString got(3072), want(3072);
  const auto train = open_images("cifar10", folder.path(), Split::train);
  const auto test = open_images("cifar10", folder.path(), Split::test);
  ASSERT_EQ(train->size(), 15U);
  ASSERT_EQ(test->size(), 3U);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->shape(), (ImageShape{3, 32, 32}));
  for (std::size_t i = 0; i < 18; ++i) {
    const Images& set = i < 15 ? *train : *test;
    set.read(i % 15, got);
    wanted->read(i, want);
    EXPECT_EQ(got, want);
    EXPECT_EQ(set.label(i % 15), wanted->label(i));
  }
}

TEST(Cifar10, IsFoundByTheFolderThatHasItsFolder) {
  const TemporaryFolder folder;
  write_set("cifar10", folder.path());
  EXPECT_EQ(open_images("cifar10", folder.path(), Split::test)->size(), 32U);
}

TEST(Cifar100, TakesTheFineLabelAndChecksBoth) {
  const TemporaryFolder folder;
  write_cifar100(folder.path(), 8, 4);
  const auto wanted = images_like(3, 32, 100, 12);
  const auto set = open_images("cifar100", folder.path(), Split::train);
  ASSERT_EQ(set->size(), 8U);
  EXPECT_EQ(set->classes(), 100);
  ByteString got(3072), want(3072);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(set->label(i), wanted->label(i));
    set->read(i, got);
    wanted->read(i, want);
    EXPECT_EQ(got, want);
  }
  ByteString bytes = bytes_of(folder.path() / "test.bin");
  bytes[3074] = 20;
  write_file(folder.path() / "test.bin", bytes);
  const auto open = [&] { open_images("cifar100", folder.path(), Split::test); };
  expect_refusal(open, "image 1 has label 20; labels are below 20");
  bytes[3074] = 19;
  bytes[3075] = 100;
  write_file(folder.path() / "test.bin", bytes);
  expect_refusal(open, "image 1 has label 100; labels are below 100");
}

TEST(Cifar10, RefusesAFileCutShortAnywhere) {
  const TemporaryFolder folder;
  write_cifar10(folder.path(), 2);
  const auto open = [&] { open_images("cifar10", folder.path(), Split::train); };
  with_every_cut(
      folder.path() / "data_batch_3.bin",
      [&](std::size_t length) { EXPECT_TRUE(refused(open)) << length; }, 7);
  // At a record's end only the other files tell.
  ByteString bytes = bytes_of(folder.path() / "data_batch_4.bin");
  bytes.resize(3073);
  write_file(folder.path() / "data_batch_4.bin", bytes);
  expect_refusal(open, "has 1 images and data_batch_1.bin has 2");
}

TEST(Cifar10, RefusesALabelOutOfRange) {
  const TemporaryFolder folder;
  write_cifar10(folder.path(), 2);
  ByteString bytes = bytes_of(folder.path() / "data_batch_2.bin");
  bytes[3073] = 10;
  write_file(folder.path() / "data_batch_2.bin", bytes);
  expect_refusal([&] { open_images("cifar10", folder.path(), Split::train); },
                 "data_batch_2.bin: image 1 has label 10");
}

TEST(Cifar10, NamesTheMissingFile) {
  const TemporaryFolder folder;
  write_cifar10(folder.path(), 2);
  std::filesystem::remove(folder.path() / "data_batch_5.bin");
  expect_refusal([&] { open_images("cifar10", folder.path(), Split::train); },
                 "data_batch_5.bin: there is no such file");
}

TEST(Cifar, RefusesThePythonVersionWithTheCure) {
  const TemporaryFolder folder;
  write_file(folder.path() / "data_batch_1", std::string_view("\x80\x02}q"));
  write_file(folder.path() / "test", std::string_view("\x80\x02}q"));
  expect_refusal([&] { open_images("cifar10", folder.path(), Split::train); },
                 "take the binary version (cifar-10-binary.tar.gz)");
  expect_refusal([&] { open_images("cifar100", folder.path(), Split::test); },
                 "take the binary version (cifar-100-binary.tar.gz)");
}

TEST(Cifar, SaysHowToGetWhatIsMissing) {
  const TemporaryFolder folder;
  expect_refusal([&] { open_images("cifar10", folder.path(), Split::train); },
                 "topknot data cifar10");
  expect_refusal(
      [&] { open_images("cifar100", folder.path() / "nowhere", Split::train); },
      "topknot data cifar100");
}

TEST(Cifar10, ReadsTheRealSet) {
  const char* const data = std::getenv("TOPKNOT_DATA");
  if (data == nullptr) GTEST_SKIP() << "TOPKNOT_DATA does not name the real sets";
  const auto train = open_images("cifar10", data, Split::train);
  EXPECT_EQ(train->size(), 50'000U);
  EXPECT_EQ(open_images("cifar10", data, Split::test)->size(), 10'000U);
  std::vector<int> counts(10);
  std::array<double, 3> sum{}, squares{};
  ByteString pixels(3072);
  for (std::size_t i = 0; i < train->size(); ++i) {
    ++counts[train->label(i)];
    train->read(i, pixels);
    for (std::size_t p = 0; p < pixels.size(); ++p) {
      sum[p / 1024] += pixels[p];
      squares[p / 1024] += pixels[p] * pixels[p];
    }
  }
  EXPECT_EQ(counts, std::vector<int>(10, 5000));
  const Normalisation normal = normalisation("cifar10");
  for (std::size_t c = 0; c < 3; ++c) {
    const double n = 50'000.0 * 1024;
    const double mean = sum[c] / n;
    EXPECT_NEAR(mean / 255, normal.mean[c], 0.0005);
    EXPECT_NEAR(std::sqrt(squares[c] / n - mean * mean) / 255, normal.deviation[c],
                0.0005);
  }
}

}  // namespace
}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/refusals.h"
#include "data/write_sets.h"

namespace topknot::data {
namespace {

constexpr int kSide = 4;

class Idx : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { write_idx(folder_.path(), 6, 3, GetParam(), kSide); }

  std::filesystem::path file(const std::string& name) const {
    return folder_.path() / (name + (GetParam() ? ".gz" : ""));
  }
  auto open(Split split = Split::train) const {
    return open_images("mnist", folder_.path(), split);
  }
  void write(const std::string& name, const ByteString& bytes) const {
    write_file(file(name), GetParam() ? gzip(bytes) : bytes);
  }

  TemporaryFolder folder_;
};

TEST_P(Idx, GivesBackWhatWasWritten) {
  const auto wanted = images_like(1, kSide, 10, 9);
  ByteString got(kSide * kSide), want(kSide * kSide);
  for (const Split split : {Split::train, Split::test}) {
    const auto set = open(split);
    const std::size_t first = split == Split::train ? 0 : 6;
    ASSERT_EQ(set->size(), split == Split::train ? 6U : 3U);
    EXPECT_EQ(set->classes(), 10);
    EXPECT_EQ(set->shape(), (ImageShape{1, kSide, kSide}));
    for (std::size_t i = 0; i < set->size(); ++i) {
      set->read(i, got);
      wanted->read(first + i, want);
      EXPECT_EQ(got, want);
      EXPECT_EQ(set->label(i), wanted->label(first + i));
    }
  }
}

TEST_P(Idx, RefusesAFileCutShortAnywhere) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"})
    with_every_cut(file(name), [&](std::size_t length) {
      EXPECT_TRUE(refused([&] { open(); })) << name << " of " << length << " bytes";
    });
  EXPECT_NO_THROW(open());
}

TEST_P(Idx, NeverDoesWorseThanRefuseRandomBytes) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"})
    with_flipped_bytes(file(name), 300, [&] {
      refused([&] {
        const auto set = open();
        ByteString pixels(set->shape().size());
        for (std::size_t i = 0; i < set->size(); ++i) {
          set->read(i, pixels);
          EXPECT_LT(set->label(i), 10);
        }
      });
    });
}

TEST_P(Idx, RefusesAnotherMagic) {
  write("train-images-idx3-ubyte", {0, 0, 8, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9});
  expect_refusal([&] { open(); }, "does not begin with 0 0 8 3");
}

TEST_P(Idx, RefusesALabelOutOfRange) {
  write("train-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 6, 0, 1, 2, 10, 4, 5});
  expect_refusal([&] { open(); }, "label 3 is 10");
}

TEST_P(Idx, RefusesLabelsThatAreNotAsManyAsImages) {
  write("train-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 5, 0, 1, 2, 3, 4});
  expect_refusal([&] { open(); }, "5 labels for 6 images");
}

TEST_P(Idx, RefusesMoreThanTheHeaderAsksFor) {
  write("train-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 6, 0, 1, 2, 3, 4, 5, 6});
  expect_refusal([&] { open(); }, "goes on after the 14 bytes");
}

TEST_P(Idx, RefusesSizesWhoseProductOverflows) {
  const ByteString huge = {0,    0,    8,    3,    0xFF, 0xFF, 0xFF, 0xFF,
                           0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  write("train-images-idx3-ubyte", huge);
  expect_refusal([&] { open(); }, "more than 2^64");
  ByteString wraps = huge;  // 2^32 * 2^31 * ... would be 0 modulo 2^64
  std::copy_n(ByteString{0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 4}.begin(), 12,
              wraps.begin() + 4);
  write("train-images-idx3-ubyte", wraps);
  expect_refusal([&] { open(); }, "more than 2^64");
}

TEST_P(Idx, DoesNotTakeMemoryForWhatAHeaderOnlyClaims) {
  // 3.9 GB, and the file ends at once.
  write("train-images-idx3-ubyte", {0, 0, 8, 3, 0, 0x3B, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32});
  expect_refusal([&] { open(); }, "ends after 16");
}

TEST_P(Idx, ReadsNothingBeyondItsEnd) {
  const auto set = open();
  ByteString pixels(kSide * kSide);
  EXPECT_THROW(set->read(6, pixels), ContractError);
  EXPECT_THROW(set->label(6), ContractError);
  pixels.pop_back();
  EXPECT_THROW(set->read(0, pixels), ContractError);
}

INSTANTIATE_TEST_SUITE_P(, Idx, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Gzipped" : "Plain"; });

TEST(IdxFolder, SaysHowToGetWhatIsMissing) {
  const TemporaryFolder folder;
  expect_refusal([&] { open_images("mnist", folder.path(), Split::train); },
                 "topknot data mnist");
  expect_refusal([&] { open_images("fashion-mnist", folder.path(), Split::train); },
                 "apt install dataset-fashion-mnist");
}

TEST(IdxFolder, StopsUnpackingABombAtItsHeadersSize) {
  const TemporaryFolder folder;
  write_idx(folder.path(), 2, 1, true, kSide);
  ByteString bomb = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4};
  bomb.resize(std::size_t{64} << 20);
  write_file(folder.path() / "train-images-idx3-ubyte.gz", gzip(bomb));
  expect_refusal([&] { open_images("mnist", folder.path(), Split::train); },
                 "goes on after the 48 bytes");
}

TEST(IdxFolder, ReadsDebiansFashionMnist) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto train = open_images("fashion-mnist", {}, Split::train);
  const auto test = open_images("fashion-mnist", {}, Split::test);
  EXPECT_EQ(train->size(), 60'000U);
  EXPECT_EQ(test->size(), 10'000U);
  std::vector<int> counts(10);
  for (std::size_t i = 0; i < train->size(); ++i) ++counts[train->label(i)];
  EXPECT_EQ(counts, std::vector<int>(10, 6000));
  double sum = 0;
  ByteString pixels(train->shape().size());
  for (std::size_t i = 0; i < 10'000; ++i) {
    train->read(i, pixels);
    for (const std::uint8_t p : pixels) sum += p;
  }
  EXPECT_NEAR(sum / 255 / 784 / 10'000, normalisation("fashion-mnist").mean[0], 0.002);
}

}  // namespace
}  // namespace topknot::data

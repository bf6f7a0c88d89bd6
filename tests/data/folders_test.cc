// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/formats/jpeg.h"
#include "data/formats/resize.h"
#include "data/refusals.h"
#include "data/write_sets.h"

namespace topknot::data {
namespace {

constexpr unsigned kSide = 40;

/// Red grows to the right and green downward.
ByteString ramp(unsigned height, unsigned width) {
  ByteString pixels(std::size_t{3} * height * width);
  for (unsigned y = 0; y < height; ++y)
    for (unsigned x = 0; x < width; ++x) {
      pixels[y * width + x] = static_cast<std::uint8_t>(255 * x / (width - 1));
      pixels[(height + y) * width + x] =
          static_cast<std::uint8_t>(255 * y / (height - 1));
      pixels[(2 * height + y) * width + x] = 128;
    }
  return pixels;
}

class Folders : public ::testing::Test {
 protected:
  void SetUp() override { write_folders(folder_.path(), 3, 2, kSide); }
  auto open(Split split = Split::train) const {
    return open_images("imagenet:side=32", folder_.path(), split);
  }
  std::filesystem::path first() const {
    return folder_.path() / "train/n0100/n0100_0.JPEG";
  }

  TemporaryFolder folder_;
};

TEST_F(Folders, NumbersClassesByName) {
  for (const Split split : {Split::train, Split::test}) {
    const auto set = open(split);
    ASSERT_EQ(set->size(), 6U);
    EXPECT_EQ(set->classes(), 3);
    EXPECT_EQ(set->shape(), (ImageShape{3, 32, 32}));
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(set->label(i), static_cast<int>(i / 2));
  }
}

TEST_F(Folders, CutsOutTheMiddle) {
  write_jpeg(first(), ramp(56, 112), 56, 112, 98);
  ByteString pixels(3072);
  open()->read(0, pixels);
  // The middle 49 of 112 columns and of 56 rows.
  const auto red = [&](int y, int x) { return int{pixels[y * 32 + x]}; };
  const auto green = [&](int y, int x) { return int{pixels[1024 + y * 32 + x]}; };
  EXPECT_NEAR(red(16, 0), 255 * (31.5 + 0.77) / 112, 4);
  EXPECT_NEAR(red(16, 31), 255 * (80.5 - 0.77) / 112, 4);
  EXPECT_NEAR(green(0, 16), 255 * (3.5 + 0.77) / 56, 4);
  EXPECT_NEAR(green(31, 16), 255 * (52.5 - 0.77) / 56, 4);
  EXPECT_NEAR(pixels[2048 + 16 * 32 + 16], 128, 3);
}

TEST_F(Folders, DrawsPartsThatDifferButRepeatWithTheGenerator) {
  write_jpeg(first(), ramp(64, 64), 64, 64);
  const auto set = open();
  ByteString one(3072), two(3072), again(3072);
  core::Random random(3), same(3);
  set->read_part(0, one, random);
  EXPECT_EQ(random.counter(), 4U);
  set->read_part(0, two, random);
  set->read_part(0, again, same);
  EXPECT_NE(one, two);
  EXPECT_EQ(one, again);
}

TEST_F(Folders, ReadsTheSamePictureAtAnyScaleOfTheDecoder) {
  write_jpeg(first(), ramp(512, 512), 512, 512, 98);
  ByteString small(3072);
  open()->read(0, small);
  const auto large = open_images("imagenet:side=256", folder_.path(), Split::train);
  ByteString big(large->shape().size());
  large->read(0, big);
  for (int y = 0; y < 32; ++y)
    for (int x = 0; x < 32; ++x)
      EXPECT_NEAR(small[y * 32 + x], big[(y * 8 + 4) * 256 + x * 8 + 4], 6);
}

TEST_F(Folders, RefusesAPictureCutShortAnywhere) {
  const auto set = open();
  ByteString pixels(3072);
  const std::size_t size = bytes_of(first()).size();
  with_every_cut(first(), [&](std::size_t length) {
    // Of the last bytes libjpeg needs none once all pixels are there.
    if (length >= size - 8) return;
    EXPECT_TRUE(refused([&] { set->read(0, pixels); })) << length << " of " << size;
  });
  EXPECT_NO_THROW(set->read(0, pixels));
}

TEST_F(Folders, NeverDoesWorseThanRefuseRandomBytes) {
  const auto set = open();
  ByteString pixels(3072);
  int broken = 0;
  with_flipped_bytes(first(), 500,
                     [&] { broken += refused([&] { set->read(0, pixels); }) ? 1 : 0; });
  EXPECT_GT(broken, 20);
}

TEST_F(Folders, RefusesWhatIsNoJpeg) {
  write_file(first(), std::string_view("\x89PNG\r\n\x1a\n"));
  ByteString pixels(3072);
  expect_refusal([&] { open()->read(0, pixels); }, "is not a JPEG that can be decoded");
}

TEST_F(Folders, RefusesClassesThatDifferBetweenTheHalves) {
  std::filesystem::rename(folder_.path() / "val/n0101", folder_.path() / "val/n0999");
  expect_refusal([&] { open(); }, "the first difference is \"n0101\"");
}

TEST_F(Folders, RefusesAnEmptyClass) {
  std::filesystem::remove_all(folder_.path() / "train/n0101");
  std::filesystem::create_directory(folder_.path() / "train/n0101");
  expect_refusal([&] { open(); }, "there is no *.JPEG in it");
}

TEST(FoldersLayout, SaysHowToSortAFlatHalf) {
  const TemporaryFolder folder;
  write_jpeg(folder.path() / "val/one.JPEG", ramp(16, 16), 16, 16);
  expect_refusal([&] { open_images("imagenet", folder.path(), Split::test); },
                 "sort them into CLASS/*.JPEG");
}

TEST(FoldersLayout, SaysHowToGetWhatIsMissing) {
  const TemporaryFolder folder;
  expect_refusal([&] { open_images("imagenet", folder.path(), Split::train); },
                 "register at https://image-net.org");
}

TEST(Resize, KeepsPixelsWhereNothingChanges) {
  Picture picture{.height = 3, .width = 3, .pixels = {}};
  for (int i = 0; i < 27; ++i) picture.pixels.push_back(static_cast<std::uint8_t>(i * 9));
  ByteString out(27);
  resize(picture, {0, 0, 3, 3}, 3, out);
  for (std::size_t p = 0; p < 9; ++p)
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_EQ(out[c * 9 + p], picture.pixels[3 * p + c]);
}

TEST(Resize, AveragesWhereItShrinks) {
  Picture picture{.height = 64, .width = 64, .pixels = ByteString(64 * 64 * 3)};
  for (std::size_t i = 0; i < picture.pixels.size(); ++i)  // a chess board
    picture.pixels[i] = (i / 3 + i / 192) % 2 == 0 ? 0 : 200;
  ByteString out(3 * 8 * 8);
  resize(picture, {0, 0, 64, 64}, 8, out);
  for (const std::uint8_t p : out) EXPECT_NEAR(p, 100, 2);
}

}  // namespace
}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "cli/tfevents.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "cli/folders.h"

namespace topknot::cli {
namespace {

using test::read_text;
using test::ScratchFolder;

std::uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text)));
}

template <typename Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number;
  std::memcpy(&number, bytes.substr(at, sizeof number).data(), sizeof number);
  return number;
}

/// The records of a file, whose sums are right.
std::vector<std::string> records(const std::string& file) {
  const auto mask = [](std::uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  };
  std::vector<std::string> all;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = number_at<std::uint64_t>(file, at);
    EXPECT_EQ(number_at<std::uint32_t>(file, at + 8), mask(crc_of(file.substr(at, 8))));
    all.push_back(file.substr(at + 12, length));
    EXPECT_EQ(number_at<std::uint32_t>(file, at + 12 + length), mask(crc_of(all.back())));
    at += 16 + length;
  }
  return all;
}

std::string only_file_in(const std::filesystem::path& folder) {
  std::string text;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("events.out.tfevents."));
    text = read_text(entry.path());
    ++files;
  }
  EXPECT_EQ(files, 1);
  return text;
}

TEST(Crc32c, IsThatOfTheStandard) {
  EXPECT_EQ(crc_of(""), 0u);
  EXPECT_EQ(crc_of("123456789"), 0xE3069283u);
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc_of(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(EventFile, BeginsLikeEveryEventFile) {
  const ScratchFolder folder;
  const EventFile file(folder.path(), 0);
  const std::string text = only_file_in(folder.path());
  // The first twelve bytes never change: 24 bytes follow, and the sum of that number.
  EXPECT_EQ(text.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  const auto all = records(text);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].substr(9),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventFile, SaysStepTagAndValue) {
  const ScratchFolder folder;
  EventFile file(folder.path(), 0);
  file.scalar("loss", 300, 0.5);
  const auto all = records(only_file_in(folder.path()));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1][0], '\x09');
  EXPECT_GT(number_at<double>(all[1], 1), 1.6e9);
  EXPECT_EQ(all[1].substr(9), std::string("\x10\xac\x02"           // step 300
                                          "\x2a\x0d\x0a\x0b"       // a summary, a value
                                          "\x0a\x04loss"           // its tag
                                          "\x15\x00\x00\x00\x3f",  // 0.5f
                                          18));
}

TEST(EventFile, OfAResumedRunTakesBackTheStepsFromThereOn) {
  const ScratchFolder folder;
  const EventFile file(folder.path(), 7);
  const auto all = records(only_file_in(folder.path()));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].substr(9), std::string("\x10\x07\x3a\x02\x08\x01", 6));
}

}  // namespace
}  // namespace topknot::cli

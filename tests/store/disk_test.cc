// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "store/files.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// A folder of the test's own, empty.
class Disk : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "topknot-disk-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { remove_with_files(disk(), folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  static void write(const std::string& path, const std::string& text) {
    const auto piece = bytes_of(text);
    write_new(disk(), path, std::span(&piece, 1));
  }
  static std::string read(const std::string& path) {
    std::string text;
    for (const std::byte b : disk().read(path, 1000)) text += static_cast<char>(b);
    return text;
  }

  std::string folder_;
};

TEST_F(Disk, ReadsWhatItWrote) {
  write(at("a"), "one");
  write(at("b"), "");
  EXPECT_EQ(read(at("a")), "one");
  EXPECT_EQ(read(at("b")), "");
  EXPECT_EQ(disk().list(folder_), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(disk().list(at("nowhere")).empty());
}

TEST_F(Disk, RefusesToWriteOverAFile) {
  write(at("a"), "one");
  try {
    write(at("a"), "two");
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "Creation of " + at("a") + " was refused: File exists.");
  }
  EXPECT_EQ(read(at("a")), "one");
}

TEST_F(Disk, TellsWhatIsTheFilesFault) {
  write(at("a"), "one");
  EXPECT_THROW(disk().read(at("a"), 2), DataError);
  EXPECT_THROW(disk().read(at("none"), 2), DataError);
  EXPECT_THROW(disk().read(folder_, 100000), DataError);
  EXPECT_THROW(disk().read("/dev/zero", 2), DataError);
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_THROW(disk().read(at("pipe"), 2), DataError);
}

TEST_F(Disk, RenamesOverAFileAndExchangesFolders) {
  write(at("a"), "one");
  write(at("b"), "two");
  disk().rename(at("a"), at("b"));
  EXPECT_EQ(read(at("b")), "one");
  EXPECT_TRUE(disk().make_folder(at("x")));
  EXPECT_FALSE(disk().make_folder(at("x")));
  EXPECT_TRUE(disk().make_folder(at("y")));
  write(at("x/file"), "x");
  write(at("y/file"), "y");
  EXPECT_THROW(disk().rename(at("x"), at("y")), StorageError);
  disk().exchange(at("x"), at("y"));
  EXPECT_EQ(read(at("x/file")), "y");
  EXPECT_EQ(read(at("y/file")), "x");
  EXPECT_THROW(disk().remove_folder(at("x")), StorageError);
  EXPECT_THROW(disk().make_folder(at("b")), StorageError);
  remove_with_files(disk(), at("x"));
  remove_with_files(disk(), at("y"));
}

TEST_F(Disk, SaysWhenAFileMayGrowNoMore) {
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto file = disk().create(at("a"));
  EXPECT_NO_THROW(file->write(bytes_of(std::string(900, 'x'))));
  // The first part of it fits, so the system writes that and says so.
  EXPECT_THROW(file->write(bytes_of(std::string(900, 'x'))), StorageError);
  EXPECT_THROW(write(at("b"), std::string(2000, 'x')), StorageError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(disk().read(at("a"), 2000).size(), 1000U);
}

TEST_F(Disk, SaysWhenThereAreTooManyFiles) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  write(at("a"), "one");
  const rlimit few{3, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  EXPECT_THROW(disk().create(at("b")), StorageError);
  EXPECT_THROW(disk().read(at("a"), 10), StorageError);
  EXPECT_THROW(disk().list(folder_), StorageError);
  EXPECT_THROW(disk().sync_folder(folder_), StorageError);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ParentOf, IsWhatAPathIsIn) {
  EXPECT_EQ(parent_of("a/b"), "a");
  EXPECT_EQ(parent_of("a/b/"), "a");
  EXPECT_EQ(parent_of("a"), ".");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
}

}  // namespace
}  // namespace topknot::store

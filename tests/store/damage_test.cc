// SPDX-License-Identifier: Apache-2.0
//
// Every byte of a checkpoint is changed, every file cut at every length; the load must
// notice and go back to the one before, on all ranks.

#include <gtest/gtest.h>

#include "core/hash.h"
#include "store/saves.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

using namespace topknot::store::testing;

constexpr int kRanks = 2;

std::vector<std::string> files_of(MemoryFiles& files, const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : files.list(folder)) paths.push_back(folder + "/" + name);
  return paths;
}

void save_two(MemoryFiles& files) { save_all(files, "c", kRanks, {1, 2}); }

TEST(Damage, OfAnyByteIsNoticed) {
  MemoryFiles files;
  save_two(files);
  const auto paths = files_of(files, "c/step-2");
  ASSERT_EQ(paths.size(), 2U + kRanks);
  for (const std::string& path : paths)
    for (std::size_t i = 0; i < files.raw(path).size(); ++i) {
      const std::byte right = files.raw(path)[i];
      files.raw(path)[i] ^= std::byte{1} << (i % 8);
      ASSERT_EQ(load(files, "c", kRanks), 1U) << path << " byte " << i;
      files.raw(path)[i] = right;
    }
  EXPECT_EQ(load(files, "c", kRanks), 2U);
}

TEST(Damage, OfAnyLengthIsNoticed) {
  MemoryFiles files;
  save_two(files);
  for (const std::string& path : files_of(files, "c/step-2")) {
    const std::vector<std::byte> right = files.raw(path);
    for (std::size_t length = 0; length < right.size(); ++length) {
      files.raw(path).resize(length);
      ASSERT_EQ(load(files, "c", kRanks), 1U) << path << " cut at " << length;
      files.raw(path) = right;
    }
    files.raw(path).push_back(std::byte{0});
    ASSERT_EQ(load(files, "c", kRanks), 1U) << path << " with a byte more";
    files.raw(path) = right;
  }
}

TEST(Damage, ByAMissingFileIsNoticed) {
  for (const char* name : {"manifest", "weights.safetensors", "shard-0.safetensors",
                           "shard-1.safetensors"}) {
    MemoryFiles files;
    save_two(files);
    files.remove_file(std::string("c/step-2/") + name);
    EXPECT_EQ(load(files, "c", kRanks), 1U) << name;
  }
}

TEST(Damage, BySwappedFilesIsNoticed) {
  MemoryFiles files;
  save_two(files);
  std::swap(files.raw("c/step-2/shard-0.safetensors"),
            files.raw("c/step-2/shard-1.safetensors"));
  EXPECT_EQ(load(files, "c", kRanks), 1U);
  files.exchange("c/step-1", "c/step-2");
  EXPECT_THROW(load(files, "c", kRanks), NoCheckpointError);
}

TEST(Damage, ByAnotherStepsShardIsNoticed) {
  MemoryFiles files;
  save_two(files);
  files.raw("c/step-2/shard-1.safetensors") = files.raw("c/step-1/shard-1.safetensors");
  EXPECT_EQ(load(files, "c", kRanks), 1U);
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A manifest whose hash is right, whatever else it says.
std::vector<std::byte> signed_text(const std::string& text) {
  std::array<char, 24> line{};
  std::snprintf(
      line.data(), line.size(), "hash %016llx\n",
      static_cast<unsigned long long>(core::hash(std::as_bytes(std::span(text)))));
  return bytes_of(text + line.data());
}

TEST(Damage, OfAFutureVersionIsSaid) {
  try {
    Manifest::parse(signed_text("topknot checkpoint 2\nwhatever\n"), "m");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "m is of version 2; this program reads version 1.");
  }
}

TEST(Damage, ThatIsSignedIsStillRefused) {
  const std::string good = Manifest{7, "a", "c", "m", {1, 2}, {{3, 4}}}.str();
  const std::string body = good.substr(0, good.size() - 22);
  EXPECT_EQ(Manifest::parse(signed_text(body), "m").str(), good);
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (const char c : {'\n', ' ', '0', '-', '\0'}) {
      std::string other = body;
      other[i] = c;
      try {
        const Manifest read = Manifest::parse(signed_text(other), "m");
        EXPECT_EQ(bytes_of(read.str()), signed_text(other));
      } catch (const DataError&) {
      }
    }
    EXPECT_THROW(Manifest::parse(signed_text(body.substr(0, i)), "m"), DataError);
  }
  EXPECT_THROW(Manifest::parse(signed_text(body + "file 1 0 x\n"), "m"), DataError);
  EXPECT_THROW((Manifest{7, "a\nb", "", "", {}, {{}}}.str()), ContractError);
}

}  // namespace
}  // namespace topknot::store

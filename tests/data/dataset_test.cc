// SPDX-License-Identifier: Apache-2.0
//
// What every data set of the registry has to be, whichever it is.
#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/dataset_summary.h"
#include "data/refusals.h"
#include "data/write_sets.h"
#include "refusal.h"

namespace topknot::data {
namespace {

TEST(EveryDataset, IsDescribed) {
  std::set<std::string_view> names, folders;
  for (const Dataset& set : datasets()) {
    SCOPED_TRACE(set.name);
    EXPECT_TRUE(names.insert(set.name).second);
    EXPECT_TRUE(folders.insert(set.folder).second);
    EXPECT_EQ(&find_dataset(set.name), &set);
    EXPECT_FALSE(set.summary.empty());
    EXPECT_FALSE(set.licence.empty());
    EXPECT_GT(set.megabytes, 0);
    EXPECT_FALSE(set.marks.empty());
    EXPECT_TRUE(!set.archives.empty() || !set.by_hand.empty()) << "no way to get it";
  }
}

TEST(EveryDataset, HasArchivesThatCanBeCheckedAndUnpacked) {
  for (const Dataset& set : datasets()) {
    SCOPED_TRACE(set.name);
    for (const Archive& archive : set.archives) {
      EXPECT_TRUE(archive.url.starts_with("http")) << archive.url;
      EXPECT_TRUE(archive.url.ends_with(archive.name)) << archive.url;
      const bool md5 = archive.hash.starts_with("md5:");
      EXPECT_TRUE(md5 || archive.hash.starts_with("sha256:")) << archive.hash;
      EXPECT_EQ(archive.hash.size(), md5 ? 4U + 32 : 7U + 64) << archive.hash;
    }
    EXPECT_EQ(set.members.empty(), set.packing == Packing::files);
    for (const std::string_view member : set.members)
      EXPECT_TRUE(member.starts_with(std::string(set.folder) + "/")) << member;
  }
}

TEST(EveryDataset, SaysHowToGetItWhereItIsNot) {
  const TemporaryFolder folder;
  for (const Dataset& set : datasets()) {
    SCOPED_TRACE(set.name);
    expect_refusal([&] { summarize(set, folder.path()); },
                   "there is no " + std::string(set.name) + " in it; " + how_to_get(set));
  }
}

class OneDataset : public ::testing::TestWithParam<std::size_t> {};

TEST_P(OneDataset, IsReadAndSummarized) {
  const Dataset& set = datasets()[GetParam()];
  const TemporaryFolder folder;
  if (!write_set(set.name, folder.path()))
    GTEST_SKIP() << "tests/data/write_sets.h cannot write a tiny " << set.name;
  const DatasetSummary summary = summarize(set, folder.path());
  ASSERT_FALSE(summary.empty());
  for (const auto& [what, count] : summary) EXPECT_GT(count, 0U) << what;
}

INSTANTIATE_TEST_SUITE_P(All, OneDataset,
                         ::testing::Range(std::size_t{0}, datasets().size()),
                         [](const auto& which) {
                           std::string name(datasets()[which.param].name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Datasets, AreRefusedByNameAndKind) {
  EXPECT_REFUSAL(find_dataset("mnits"), ConfigError,
                 "There is no data set \"mnits\"; nearest is mnist.");
  EXPECT_REFUSAL(
      find_dataset_of<RatingsReader>("mnist", "There are no ratings"), ConfigError,
      "There are no ratings \"mnist\"; there are ml-1m, ml-20m and generated.");
}

}  // namespace
}  // namespace topknot::data

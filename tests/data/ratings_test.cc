// SPDX-License-Identifier: Apache-2.0
#include "data/ratings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "data/refusals.h"
#include "data/write_sets.h"
#include "refusal.h"

namespace topknot::data {
namespace {

Ratings open(const TemporaryFolder& folder, const char* name = "ml-1m") {
  return open_ratings(name, folder.path());
}

void replace(const std::filesystem::path& file, const std::string& from,
             const std::string& to) {
  const ByteString bytes = bytes_of(file);
  std::string text(bytes.begin(), bytes.end());
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  write_file(file, text.replace(at, from.size(), to));
}

TEST(Ncf, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  write_ncf(folder.path(), "ml-1m");
  const Ratings wanted = open_ratings("generated:users=60,items=400,each=8", {});
  const Ratings got = open(folder);
  ASSERT_EQ(got.users(), 60U);
  EXPECT_TRUE(std::ranges::equal(got.train(), wanted.train()));
  for (std::uint32_t u = 0; u < 60; ++u) {
    EXPECT_EQ(got.held_out(u), wanted.held_out(u));
    EXPECT_TRUE(std::ranges::equal(got.negatives(u), wanted.negatives(u)));
  }
}

TEST(Ncf, RefusesUnknownUsersAndItems) {
  const TemporaryFolder folder;
  write_ncf(folder.path(), "ml-1m");
  const std::filesystem::path train = folder.path() / "ml-1m.train.rating";
  const ByteString whole = bytes_of(train);
  write_file(train, std::string_view("60\t1\t1\n"));
  expect_refusal([&] { open(folder); },
                 "line 1 has the unknown user 60; users are below 60");
  write_file(train, std::string_view("5\t-1\t1\n"));
  expect_refusal([&] { open(folder); }, "unknown item -1");
  write_file(train, std::string_view("5 1 1\n"));
  expect_refusal([&] { open(folder); }, "where a tab is expected");
  write_file(train, whole);
  write_file(folder.path() / "ml-1m.item_to_movieid.txt",
             std::string_view("0\t7\n1\t8\n"));
  expect_refusal([&] { open(folder); }, "has the unknown item");
  std::filesystem::remove(folder.path() / "ml-1m.item_to_movieid.txt");
  replace(folder.path() / "ml-1m.test.negative", "\t", "\t9999\t");
  expect_refusal([&] { open(folder); }, "unknown item 9999");
}

TEST(Ncf, RefusesNegativesThatAreNotOfTheTest) {
  const TemporaryFolder folder;
  write_ncf(folder.path(), "ml-1m");
  const std::filesystem::path file = folder.path() / "ml-1m.test.negative";
  const ByteString whole = bytes_of(file);
  replace(file, "(0,", "(1,");
  expect_refusal([&] { open(folder); }, "is not of user 0");
  write_file(file, whole);
  replace(file, ")", ")\t3");
  expect_refusal([&] { open(folder); }, "has text after 99 negatives");
  const auto line = std::find(whole.begin(), whole.end(), '\n') + 1;
  write_file(file, ByteString(whole.begin(), line));
  expect_refusal([&] { open(folder); }, "1 lines for 60 users");
}

TEST(Ncf, RefusesAFileCutShortAnywhere) {
  const TemporaryFolder folder;
  write_ncf(folder.path(), "ml-1m");
  for (const char* name : {"ml-1m.test.rating", "ml-1m.test.negative"})
    with_every_cut(
        folder.path() / name,
        [&](std::size_t length) {
          EXPECT_TRUE(refused([&] { open(folder); })) << length;
        },
        11);
}

TEST(Ncf, NeverDoesWorseThanRefuseRandomBytes) {
  const TemporaryFolder folder;
  write_ncf(folder.path(), "ml-1m");
  for (const char* name :
       {"ml-1m.train.rating", "ml-1m.test.rating", "ml-1m.test.negative"})
    with_flipped_bytes(folder.path() / name, 200,
                       [&] { refused([&] { open(folder); }); });
}

TEST(RawRatings, HoldOutTheLatestOfEachUser) {
  for (const char* name : {"ml-1m", "ml-20m"}) {
    const TemporaryFolder folder;
    write_set(name, folder.path());
    const Ratings wanted = open_ratings("generated:users=60,items=400,each=8", {});
    const Ratings got = open(folder, name);
    ASSERT_EQ(got.users(), 60U);
    EXPECT_EQ(got.train().size(), wanted.train().size());
    // Items have other numbers, but which are the same is kept.
    std::vector<std::int64_t> renamed(400, -1);
    for (std::size_t i = 0; i < got.train().size(); ++i) {
      EXPECT_EQ(got.train()[i].user, wanted.train()[i].user);
      std::int64_t& number = renamed[wanted.train()[i].item];
      if (number < 0) number = got.train()[i].item;
      EXPECT_EQ(number, got.train()[i].item);
    }
    for (std::uint32_t u = 0; u < 60; ++u) {
      const std::int64_t number = renamed[wanted.held_out(u)];
      EXPECT_TRUE(number < 0 || number == got.held_out(u));
    }
  }
}

TEST(RawRatings, OfEqualTimesTheLastIsHeldOut) {
  std::vector<RawRating> raw;
  for (std::uint32_t i = 0; i < 120; ++i) raw.push_back({1, i, 5});  // makes items known
  raw.push_back({2, 7, 9});
  raw.push_back({2, 3, 9});
  raw.push_back({2, 5, 8});
  raw.erase(raw.begin() + 10, raw.begin() + 120);
  std::vector<RawRating> all;
  for (std::uint32_t i = 100; i < 220; ++i) all.push_back({100 + i, i, 0});
  for (std::uint32_t i = 100; i < 220; ++i) all.push_back({100 + i, 7, 1});
  raw.insert(raw.end(), all.begin(), all.end());
  const Ratings ratings = leave_one_out(raw, 1, "test");
  EXPECT_EQ(ratings.held_out(1), 3U);  // items 0 to 9 keep their numbers
  EXPECT_EQ(ratings.held_out(0), 9U);
  EXPECT_TRUE(ratings.rated(1, 7));
  EXPECT_TRUE(ratings.rated(1, 5));
  EXPECT_FALSE(ratings.rated(1, 3));
}

TEST(RawRatings, RefuseWhatIsBroken) {
  const TemporaryFolder folder;
  write_set("ml-1m", folder.path());
  const std::filesystem::path file = folder.path() / "ml-1m/ratings.dat";
  const ByteString whole = bytes_of(file);
  write_file(folder.path() / "ml-1m/movies.dat",
             std::string_view("1::Film (2000)::Drama\n"));
  expect_refusal([&] { open(folder); }, "which movies.dat has not");
  std::filesystem::remove(folder.path() / "ml-1m/movies.dat");
  for (const auto& [text, said] :
       {std::pair{"1::2::3\n", "lacks a \"::\""},
        {"1,2,3,4\n", "where \"::\" is expected"},
        {"x::2::3::4\n", "where a number is expected"},
        {"1::2::3::4x\n", "has text after its time"},
        {"1::2::3::4", "cut short"},
        {"", "is empty"},
        {"1::2::3::4\n", "has one rating"},
        {"1::2::3::4\n1::2::3::5\n", "rated the same item twice"},
        {"1::2::3::4\n1::3::3::5\n", "ranking needs 99"}}) {
    write_file(file, std::string_view(text));
    expect_refusal([&] { open(folder); }, said);
  }
  write_file(file, whole);
  EXPECT_NO_THROW(open(folder));
  with_flipped_bytes(file, 200, [&] { refused([&] { open(folder); }); });
}

TEST(RatingsFolder, SaysHowToGetWhatIsMissing) {
  const TemporaryFolder folder;
  expect_refusal([&] { open(folder); }, "topknot data ml-1m");
  EXPECT_REFUSAL(
      open(folder, "ml-2m"), ConfigError,
      "There are no ratings \"ml-2m\"; there are ml-1m, ml-20m and generated.");
}

TEST(Negatives, AreNotWhatWasRated) {
  const Ratings ratings = open_ratings("generated:users=50", {});
  core::Random random(1);
  for (std::uint32_t u = 0; u < ratings.users(); ++u) {
    const auto list = ratings.negatives(u);
    EXPECT_EQ(std::set<std::uint32_t>(list.begin(), list.end()).size(), 99U);
    for (const std::uint32_t item : list) {
      EXPECT_FALSE(ratings.rated(u, item));
      EXPECT_NE(item, ratings.held_out(u));
    }
    for (int n = 0; n < 50; ++n)
      EXPECT_FALSE(ratings.rated(u, ratings.draw_negative(u, random)));
  }
}

// Those who rated the same items as a user before rate what was held out more often than
// chance would have it.
TEST(GeneratedRatings, HaveSomethingToLearn) {
  const Ratings ratings = open_ratings("generated", {});
  EXPECT_EQ(ratings.users(), 1000U);
  EXPECT_EQ(ratings.train().size(), 19'000U);
  std::vector<std::vector<std::uint32_t>> users_of(ratings.items());
  for (const Ratings::Pair& pair : ratings.train())
    users_of[pair.item].push_back(pair.user);
  std::vector<std::vector<std::uint32_t>> items_of(ratings.users());
  for (const Ratings::Pair& pair : ratings.train())
    items_of[pair.user].push_back(pair.item);
  int hits = 0;
  for (std::uint32_t u = 0; u < 300; ++u) {
    std::vector<double> score(ratings.items());
    for (const std::uint32_t liked : items_of[u])
      for (const std::uint32_t other : users_of[liked])
        for (const std::uint32_t item : items_of[other]) score[item] += 1;
    int better = 0;
    for (const std::uint32_t item : ratings.negatives(u))
      better += score[item] >= score[ratings.held_out(u)] ? 1 : 0;
    hits += better < 10 ? 1 : 0;
  }
  EXPECT_GT(hits, 60);  // 30 by chance
}

TEST(Ml1m, HasItsCounts) {
  const char* const data = std::getenv("TOPKNOT_DATA");
  if (data == nullptr) GTEST_SKIP() << "TOPKNOT_DATA does not name the real sets";
  const Ratings ratings = open_ratings("ml-1m", data);
  EXPECT_EQ(ratings.train().size(), 994'169U);
  EXPECT_EQ(ratings.users(), 6'040U);
  EXPECT_EQ(ratings.items(), 3'706U);
  std::size_t own = 0;
  for (std::uint32_t u = 0; u < ratings.users(); ++u)
    own += static_cast<std::size_t>(
        std::ranges::count(ratings.negatives(u), ratings.held_out(u)));
  EXPECT_EQ(own, 156U);
}

}  // namespace
}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
//
// Fields over ranks: what is said of those that differ, and that all ranks say the same.
#include "job/comparison.h"

#include <gtest/gtest.h>

#include <mutex>

#include "ranks.h"

namespace topknot::train {
namespace {

using topknot::testing::run;

/// What the ranks find, which must be the same on all of them.
std::vector<std::string> found(const std::vector<Fields>& by_rank) {
  std::mutex mutex;
  std::vector<std::vector<std::string>> all;
  run(static_cast<int>(by_rank.size()), [&](Transport& link) {
    Comparison comparison(link, 7);
    const auto& mine = by_rank[static_cast<std::size_t>(link.rank())];
    const std::vector<std::string> said = sentences_of(comparison.differences(mine));
    EXPECT_TRUE(comparison.differences({{"same", "everywhere"}}).empty());
    const std::scoped_lock lock(mutex);
    all.push_back(said);
  });
  for (const std::vector<std::string>& one : all) EXPECT_EQ(one, all[0]);
  return all.at(0);
}

using Sentences = std::vector<std::string>;

TEST(Comparison, SaysNothingWhereAllRanksHaveTheSame) {
  for (const std::size_t ranks : {1, 2, 3, 5, 8}) {
    EXPECT_EQ(found(std::vector<Fields>(ranks, {{"lr", "0.1"}})), Sentences{});
    EXPECT_EQ(found(std::vector<Fields>(ranks)), Sentences{});
  }
}

TEST(Comparison, NamesTheFieldBothValuesAndBothRanks) {
  EXPECT_EQ(found({{{"lr", "0.01"}, {"seed", "1"}, {"batch", "8"}},
                   {{"lr", "0.5"}, {"seed", "9"}, {"batch", "8"}}}),
            (Sentences{"rank 1 has lr = 0.5, rank 0 has 0.01.",
                       "rank 1 has seed = 9, rank 0 has 1."}));
}

TEST(Comparison, NamesTheFewestRanksFirst) {
  const Fields one{{"lr", "1"}};
  const Fields two{{"lr", "2"}};
  const Fields three{{"lr", "3"}};
  EXPECT_EQ(found({one, two, two, two}),
            Sentences{"rank 0 has lr = 1, ranks 1 to 3 have 2."});
  EXPECT_EQ(found({one, one, two, one}),
            Sentences{"rank 2 has lr = 2, ranks 0, 1 and 3 have 1."});
  EXPECT_EQ(found({one, two, three}),
            Sentences{"rank 1 has lr = 2, rank 2 has 3, rank 0 has 1."});
  EXPECT_EQ(found({one, two, one, two}),
            Sentences{"ranks 1 and 3 have lr = 2, ranks 0 and 2 have 1."});
}

TEST(Comparison, NamesEveryRankWhereverItIs) {
  for (std::size_t ranks = 2; ranks <= 6; ++ranks)
    for (std::size_t other = 0; other < ranks; ++other) {
      std::vector<Fields> all(ranks, {{"a", "x"}, {"b", "y"}});
      all[other][1].value = "z";
      const Sentences said = found(all);
      ASSERT_EQ(said.size(), 1U);
      EXPECT_NE(said[0].find("rank " + std::to_string(other) + " has"), std::string::npos)
          << said[0];
    }
}

TEST(Comparison, TellsAFieldThatIsEmptyFromOneThatIsNotThere) {
  EXPECT_EQ(found({{{"memory", ""}, {"old", "1"}}, {{"memory", "dgc"}, {"new", ""}}}),
            (Sentences{"rank 1 has memory = dgc, rank 0 has (empty).",
                       "rank 1 has old = (none), rank 0 has 1.",
                       "rank 1 has new = (empty), rank 0 has (none)."}));
}

TEST(Comparison, KeepsTextsOfOthersOnOneLineAndShort) {
  const Sentences said =
      found({{{"name", "a\nb\x1B"}}, {{"name", std::string(1000, 'x')}}});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("a?b?"), std::string::npos);
  EXPECT_LT(said[0].size(), 300U);
}

TEST(Comparison, DoesNotFlood) {
  std::vector<Fields> many(2);
  for (int i = 0; i < 1000; ++i)
    for (std::size_t rank = 0; rank < 2; ++rank)
      many[rank].push_back({"tensor " + std::to_string(i), std::to_string(rank)});
  const Sentences said = found(many);
  EXPECT_EQ(said.size(), 51U);
  EXPECT_EQ(said.back(), "The ranks differ in 950 more fields.");
  std::vector<Fields> seeds;
  for (int rank = 0; rank < 20; ++rank) seeds.push_back({{"seed", std::to_string(rank)}});
  EXPECT_EQ(
      found(seeds).at(0),
      "rank 1 has seed = 1, rank 2 has 2, rank 3 has 3, rank 4 has 4, rank 5 has 5, "
      "rank 6 has 6, rank 7 has 7, rank 8 has 8, 11 more differ, rank 0 has 0.");
}

TEST(Comparison, ThrowsTheSameOnAllRanks) {
  const auto errors = topknot::testing::run_to_the_end(3, [](Transport& link) {
    Comparison(link, 7).require_equal(
        {{"lr", link.rank() == 2 ? "1" : "2"}, {"seed", std::to_string(link.rank())}});
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_NE(error, nullptr);
    try {
      std::rethrow_exception(error);
    } catch (const StartedUnlikeError& unlike) {
      EXPECT_EQ(unlike.peer(), 2);
      EXPECT_EQ(unlike.sentences().size(), 2U);
      EXPECT_EQ(unlike.sentences()[0], "rank 2 has lr = 1, ranks 0 and 1 have 2.");
    }
  }
}

TEST(Comparison, ReadsWhatWasPackedAndRefusesEverythingCutShort) {
  const Fields fields{
      {"", ""}, {"a", "b"}, {"four", "fives"}, {"x", std::string(9, 'y')}};
  const std::vector<std::uint32_t> words = pack(fields);
  Fields read;
  ASSERT_TRUE(unpack(words, read));
  EXPECT_EQ(read, fields);
  std::size_t whole = 0;
  for (std::size_t length = 0; length <= words.size(); ++length)
    whole += unpack(std::span(words).first(length), read) ? 1 : 0;
  EXPECT_EQ(whole, fields.size() + 1) << "only at the ends of fields";
  for (std::size_t at = 0; at < words.size(); ++at)
    for (const std::uint32_t wrong : {0U, 5U, 0x7FFFFFFFU, 0xFFFFFFFCU, 0xFFFFFFFFU}) {
      std::vector<std::uint32_t> damaged = words;
      damaged[at] = wrong;
      unpack(damaged, read);  // the sanitizers look on
    }
}

TEST(NameRanks, ShortensRuns) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(name_ranks({0, 1, 2}), "ranks 0 to 2");
  EXPECT_EQ(name_ranks({0, 2, 5, 6, 7, 8, 9}), "ranks 0, 2 and 5 to 9");
  EXPECT_EQ(name_ranks({0, 1, 5, 6}), "ranks 0, 1, 5 and 6");
}

}  // namespace
}  // namespace topknot::train

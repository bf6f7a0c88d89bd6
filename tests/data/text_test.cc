// SPDX-License-Identifier: Apache-2.0
#include "data/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "data/refusals.h"
#include "data/write_sets.h"
#include "refusal.h"

namespace topknot::data {
namespace {

TEST(Wikitext, NumbersWordsAsTheyAppearAndEndsEveryLine) {
  const TemporaryFolder folder;
  write_file(folder.path() / "train.txt", std::string_view(" b a\n\n a  b\tc \r\n"));
  write_file(folder.path() / "valid.txt", std::string_view("c\n"));
  write_file(folder.path() / "test.txt", std::string_view("a a"));
  const Words words = open_words("wikitext2", folder.path());
  EXPECT_EQ(words.train, (std::vector<TokenId>{0, 1, 2, 2, 1, 0, 3, 2}));
  EXPECT_EQ(words.valid, (std::vector<TokenId>{3, 2}));
  EXPECT_EQ(words.test, (std::vector<TokenId>{1, 1, 2}));
  EXPECT_EQ(words.vocabulary.size(), 4U);
  EXPECT_EQ(words.vocabulary.word(2), "<eos>");
  EXPECT_EQ(words.vocabulary.find("d"), std::nullopt);
}

TEST(Wikitext, RefusesAWordOutsideTheVocabulary) {
  const TemporaryFolder folder;
  write_set("wikitext2", folder.path());
  EXPECT_NO_THROW(open_words("wikitext2", folder.path()));
  write_file(folder.path() / "wikitext-2/wiki.test.tokens",
             std::string_view(". .\n. strange\n"));
  expect_refusal([&] { open_words("wikitext2", folder.path()); },
                 "line 2 has \"strange\", which is not in the vocabulary");
}

TEST(Wikitext, RefusesWhatIsMissingOrEmpty) {
  const TemporaryFolder folder;
  expect_refusal([&] { open_words("wikitext2", folder.path()); },
                 "topknot data wikitext2");
  write_set("wikitext2", folder.path());
  write_file(folder.path() / "wikitext-2/wiki.valid.tokens", std::string_view(""));
  expect_refusal([&] { open_words("wikitext2", folder.path()); },
                 "there is no word in it");
  std::filesystem::remove(folder.path() / "wikitext-2/wiki.valid.tokens");
  expect_refusal([&] { open_words("wikitext2", folder.path()); },
                 "there is no such file");
  EXPECT_REFUSAL(open_words("wikitext3", folder.path()), ConfigError,
                 "There is no corpus \"wikitext3\"; there are wikitext2 and generated.");
}

TEST(Wikitext, NeverDoesWorseThanRefuseRandomBytes) {
  const TemporaryFolder folder;
  write_wikitext(folder.path(), 10);
  with_flipped_bytes(folder.path() / "wiki.test.tokens", 200,
                     [&] { refused([&] { open_words("wikitext2", folder.path()); }); });
}

TEST(Wikitext, ReadsTheRealSet) {
  const char* const data = std::getenv("TOPKNOT_DATA");
  if (data == nullptr) GTEST_SKIP() << "TOPKNOT_DATA does not name the real sets";
  const Words words = open_words("wikitext2", data);
  EXPECT_EQ(words.train.size(), 2'088'628U);
  EXPECT_EQ(words.valid.size(), 217'646U);
  EXPECT_EQ(words.test.size(), 245'569U);
  EXPECT_EQ(words.vocabulary.size(), 33'278U);
}

TEST(GeneratedText, IsTheSameForASeedAndKeepsToItsVocabulary) {
  const Words one = open_words("generated:size=5000,seed=3", {});
  const Words same = open_words("generated:size=5000,seed=3", {});
  const Words other = open_words("generated:size=5000,seed=4", {});
  EXPECT_EQ(one.train.size(), 5000U);
  EXPECT_EQ(one.valid.size(), 501U);
  EXPECT_EQ(one.train, same.train);
  EXPECT_NE(one.train, other.train);
  for (const TokenId id : one.train)
    EXPECT_LT(static_cast<std::size_t>(id), one.vocabulary.size());
  EXPECT_REFUSAL(
      open_words("generated:sizes=5", {}), ConfigError,
      "generated text has no parameter sizes; nearest is size (of words, size, seed).");
}

// What a model that counts pairs of words gains over one that counts words.
TEST(GeneratedText, CanBePredictedFromTheWordBefore) {
  const Words words = open_words("generated:words=200,size=100000", {});
  std::map<TokenId, double> single;
  std::map<std::pair<TokenId, TokenId>, double> both;
  const double n = static_cast<double>(words.train.size() - 1);
  for (std::size_t i = 1; i < words.train.size(); ++i) {
    ++single[words.train[i - 1]];
    ++both[{words.train[i - 1], words.train[i]}];
  }
  double alone = 0, given = 0;
  for (const auto& [word, count] : single) alone -= count / n * std::log2(count / n);
  for (const auto& [pair, count] : both)
    given -= count / n * std::log2(count / single[pair.first]);
  EXPECT_GT(alone - given, 0.5);
  EXPECT_GT(given, 2);  // and not by heart
}

}  // namespace
}  // namespace topknot::data

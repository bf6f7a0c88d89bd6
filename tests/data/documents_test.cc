// SPDX-License-Identifier: Apache-2.0
#include "data/documents.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "data/refusals.h"
#include "data/write_sets.h"

namespace topknot::data {
namespace {

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    write_set("wikipedia-en", folder_.path());
    write_set("bert-vocab", folder_.path());
  }
  Documents open(Split split = Split::train) const {
    return open_documents("wikipedia-en", folder_.path(), split,
                          open_word_pieces("bert-vocab", folder_.path()));
  }
  std::filesystem::path first() const {
    return folder_.path() / "wikipedia-en/train/AA/wiki_00";
  }

  TemporaryFolder folder_;
};

TEST_F(Shards, HaveTheirDocumentsAndSentencesWithoutTitles) {
  const Documents train = open();
  EXPECT_EQ(train.documents(), 40U);
  EXPECT_EQ(train.sentences(), 240U);
  EXPECT_EQ(open(Split::test).documents(), 12U);
  const WordPiece pieces = open_word_pieces("bert-vocab", folder_.path());
  for (std::size_t s = 0; s < train.sentences(); ++s) {
    EXPECT_EQ(pieces.vocabulary().word(train.sentence(s).back()), ".");
    for (const TokenId id : train.sentence(s)) EXPECT_NE(id, pieces.unknown());
  }
}

TEST_F(Shards, AreRefusedWhenCutShortWithinADocument) {
  const std::size_t size = bytes_of(first()).size();
  with_every_cut(
      first(),
      [&](std::size_t length) {
        const ByteString bytes = bytes_of(first());
        const std::string text(bytes.begin(), bytes.end());
        const bool whole =
            text.empty() || text.ends_with("</doc>\n") || text.ends_with("</doc>");
        // "<", "<d", ... of a next document is not yet one, but is text between documents.
        EXPECT_EQ(refused([&] { open(); }), !whole) << length << " of " << size;
      },
      13);
}

TEST_F(Shards, AreRefusedWhenTheirMarksDoNotMatch) {
  write_file(first(), std::string_view("<doc id=\"1\">\nT\n\nA b.\n<doc id=\"2\">\n"));
  expect_refusal([&] { open(); }, "line 5 begins a <doc> within another");
  write_file(first(), std::string_view("</doc>\n"));
  expect_refusal([&] { open(); }, "line 1 ends a <doc> that was not begun");
  write_file(first(), std::string_view("<doc id=\"1\">\nT\n\nA \xFF.\n</doc>\n"));
  expect_refusal([&] { open(); }, "line 4 cannot be read");
}

TEST_F(Shards, NeverDoWorseThanRefuseRandomBytes) {
  with_flipped_bytes(first(), 100, [&] { refused([&] { open(); }); });
}

TEST_F(Shards, MayBePlainTextWithAnEmptyLineBetweenDocuments) {
  std::filesystem::remove_all(folder_.path() / "wikipedia-en/train");
  write_file(first(), std::string_view("A b. C d.\nE.\n\nF g.\n"));
  const Documents plain = open();
  EXPECT_EQ(plain.documents(), 2U);
  EXPECT_EQ(plain.sentences(), 4U);
}

TEST(Sentences, EndWhereTheyDo) {
  using List = std::vector<std::string_view>;
  EXPECT_EQ(split_sentences("One. Two! (Three?) Four"),
            (List{"One.", "Two!", "(Three?)", "Four"}));
  EXPECT_EQ(split_sentences("About 3.5 km, e.g. here."),
            (List{"About 3.5 km, e.g. here."}));
  EXPECT_EQ(split_sentences(""), List{});
}

TEST(Pairs, AreWhatBertWants) {
  const WordPiece pieces = open_word_pieces("generated", {});
  const Documents documents =
      open_documents("generated:size=50", {}, Split::train, pieces);
  const SentencePairs pairs(documents, pieces, 32);
  core::Random random(1);
  std::size_t next = 0, told = 0, could = 0, masked = 0, kept = 0, total = 0;
  for (int round = 0; round < 20; ++round)
    for (std::size_t i = 0; i < pairs.size(); ++i, ++total) {
      const MaskedPair pair = pairs.pair(i, random);
      ASSERT_EQ(pair.ids.size(), 32U);
      ASSERT_EQ(pair.segments.size(), 32U);
      ASSERT_EQ(pair.targets.size(), 32U);
      ASSERT_LE(pair.used, 32U);
      EXPECT_EQ(pair.ids[0], pieces.begin());
      EXPECT_EQ(pair.ids[pair.used - 1], pieces.separator());
      next += pair.next ? 1 : 0;
      int separators = 0;
      for (std::size_t p = 0; p < 32; ++p) {
        const bool mark = pair.targets[p] < 0 && (pair.ids[p] == pieces.begin() ||
                                                  pair.ids[p] == pieces.separator());
        if (p >= pair.used) {
          EXPECT_EQ(pair.ids[p], pieces.pad());
          EXPECT_EQ(pair.targets[p], -1);
          continue;
        }
        EXPECT_EQ(pair.segments[p], separators > 0 ? 1 : 0);
        separators += mark && pair.ids[p] == pieces.separator() ? 1 : 0;
        could += mark ? 0 : 1;
        if (pair.targets[p] < 0) continue;
        ++told;
        masked += pair.ids[p] == pieces.mask() ? 1 : 0;
        kept += pair.ids[p] == pair.targets[p] ? 1 : 0;
      }
      EXPECT_EQ(separators, 2);
    }
  const auto share = [](std::size_t a, std::size_t b) { return double(a) / double(b); };
  EXPECT_NEAR(share(told, could), 0.15, 0.01);
  EXPECT_NEAR(share(masked, told), 0.8, 0.02);
  EXPECT_NEAR(share(kept, told), 0.1, 0.02);
  EXPECT_GT(share(next, total), 0.3);
  EXPECT_LT(share(next, total), 0.55);
}

TEST(Pairs, SayTruthOfWhatFollows) {
  const WordPiece pieces = open_word_pieces("generated", {});
  Documents documents;  // document d says nothing but the piece 10 + d
  for (TokenId d = 0; d < 8; ++d) {
    for (int s = 0; s < 5; ++s) documents.add_sentence(std::vector<TokenId>(3, 10 + d));
    documents.end_document();
  }
  const SentencePairs pairs(documents, pieces, 24);
  core::Random random(2);
  for (int round = 0; round < 20; ++round)
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const MaskedPair pair = pairs.pair(i, random);
      TokenId seen[2] = {-1, -1};
      for (std::size_t p = 0; p < pair.used; ++p) {
        const TokenId was = pair.targets[p] < 0 ? pair.ids[p] : pair.targets[p];
        if (was < 10) continue;
        TokenId& here = seen[pair.segments[p]];
        EXPECT_TRUE(here < 0 || here == was);
        here = was;
      }
      EXPECT_EQ(seen[0] == seen[1], pair.next);
    }
}

TEST(Pairs, RepeatWithTheGenerator) {
  const WordPiece pieces = open_word_pieces("generated", {});
  const Documents documents =
      open_documents("generated:size=9", {}, Split::train, pieces);
  const SentencePairs pairs(documents, pieces, 64);
  core::Random one(5), same(5);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(pairs.pair(i, one).ids, pairs.pair(i, same).ids);
  EXPECT_EQ(one.counter(), same.counter());
  EXPECT_THROW(pairs.pair(pairs.size(), one), ContractError);
}

TEST(Wikipedia, ReadsTheRealShards) {
  const char* const data = std::getenv("TOPKNOT_DATA");
  if (data == nullptr) GTEST_SKIP() << "TOPKNOT_DATA does not name the real sets";
  const WordPiece pieces = open_word_pieces("bert-vocab", data);
  const Documents test = open_documents("wikipedia-en", data, Split::test, pieces);
  EXPECT_EQ(test.documents(), 173U);
  std::size_t unknown = 0;
  for (std::size_t s = 0; s < test.sentences(); ++s)
    for (const TokenId id : test.sentence(s)) unknown += id == pieces.unknown() ? 1 : 0;
  EXPECT_LT(double(unknown) / double(test.pieces()), 0.004);
}

}  // namespace
}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "data/wordpiece.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "data/refusals.h"
#include "data/unicode.h"
#include "data/write_sets.h"

namespace topknot::data {
namespace {

WordPiece pieces_of(std::initializer_list<const char*> words) {
  Vocabulary vocabulary;
  for (const char* word : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    vocabulary.add(word);
  for (const char* word : words) vocabulary.add(word);
  return {std::move(vocabulary), "test"};
}

std::string cut(const WordPiece& pieces, std::string_view text) {
  std::string all;
  for (const TokenId id : pieces.encode(text))
    all += (all.empty() ? "" : " ") + pieces.vocabulary().word(id);
  return all;
}

TEST(WordPiece, TakesTheLongestPiecesFromTheLeft) {
  const WordPiece pieces = pieces_of({"un", "unaff", "##aff", "##able", "##ab", "##le"});
  EXPECT_EQ(cut(pieces, "unaffable"), "unaff ##able");
  EXPECT_EQ(cut(pieces, "UN able"), "un [UNK]");
  EXPECT_EQ(cut(pieces, "unab unabx"), "un ##ab [UNK]");
  EXPECT_EQ(cut(pieces, std::string(101, 'u')), "[UNK]");
  EXPECT_EQ(cut(pieces, " \t\n"), "");
}

TEST(WordPiece, CutsAtPunctuationAndDropsAccentsAndCase) {
  const WordPiece pieces =
      pieces_of({"ecole", "d", "'", "ete", ",", "strasse", "$", "\xE2\x80\x94", "a"});
  EXPECT_EQ(cut(pieces,
                "\xC3\x89"
                "COLE d'\xC3\xA9t\xC3\xA9,$"),
            "ecole d ' ete , $");
  EXPECT_EQ(cut(pieces, "a\xCC\x81\xE2\x80\x94\xC3\x80"), "a \xE2\x80\x94 a");
  EXPECT_EQ(cut(pieces,
                "a\xC2\xA0"
                "a\xE2\x80\x8B"),
            "a a");  // a hard space parts, a space of no width vanishes
}

TEST(WordPiece, TakesChineseOneByOneAndKoreanApart) {
  const WordPiece pieces = pieces_of({"\xE4\xB8\xAD", "\xE6\x96\x87", "\xE1\x84\x92",
                                      "##\xE1\x85\xA1", "##\xE1\x86\xAB"});
  EXPECT_EQ(cut(pieces, "\xE4\xB8\xAD\xE6\x96\x87"), "\xE4\xB8\xAD \xE6\x96\x87");
  EXPECT_EQ(cut(pieces, "\xED\x95\x9C"), "\xE1\x84\x92 ##\xE1\x85\xA1 ##\xE1\x86\xAB");
}

TEST(WordPiece, FoldsAllScriptsAsBertDoes) {
  EXPECT_EQ(fold(0x0130), U"i");             // capital I with a dot
  EXPECT_EQ(fold(0x0929), U"\u0928");        // Devanagari NNNA: NA and a dot
  EXPECT_EQ(fold(0x10A0), U"\u2D00");        // a Georgian capital
  EXPECT_EQ(fold(0x10400), U"\U00010428");   // a Deseret capital
  EXPECT_EQ(fold(0x0BCA), U"\u0BC6\u0BBE");  // marks that take room stay
  EXPECT_EQ(fold(0x0301), U"");              // an accent alone
  const WordPiece pieces = pieces_of({"x", "=", "y", "\xE8\xB1\x88"});
  EXPECT_EQ(cut(pieces, "x\xE2\x89\xA0y"), "x = y");       // not equal: = and a stroke
  EXPECT_EQ(cut(pieces, "\xEF\xA4\x80"), "\xE8\xB1\x88");  // one character, encoded twice
}

TEST(WordPiece, RefusesWhatIsNotUtf8) {
  const WordPiece pieces = pieces_of({"a"});
  for (const char* text :
       {"a\xFF", "\xC0\x80", "\xE2\x82", "\xED\xA0\x80", "\x80", "\xF5\x80\x80\x80"})
    expect_refusal([&] { pieces.encode(text); }, "is not UTF-8");
}

TEST(CodePoints, SurviveEncodingAndDecoding) {
  for (char32_t letter = 1; letter < 0x110000; letter += letter < 0x3000 ? 1 : 77) {
    if (letter >= 0xD800 && letter <= 0xDFFF) continue;
    std::string text;
    append_code_point(text, letter);
    std::string_view rest = text;
    ASSERT_EQ(next_code_point(rest), letter);
    ASSERT_TRUE(rest.empty());
  }
}

TEST(WordPiece, RefusesABrokenVocabulary) {
  const TemporaryFolder folder;
  expect_refusal([&] { open_word_pieces("bert-vocab", folder.path()); },
                 "topknot data bert-vocab");
  write_file(folder.path() / "vocab.txt",
             std::string_view("[PAD]\n[UNK]\n[CLS]\n[SEP]\n"));
  expect_refusal([&] { open_word_pieces("bert-vocab", folder.path()); }, "has no [MASK]");
  write_file(folder.path() / "vocab.txt", std::string_view("[PAD]\na\na\n"));
  expect_refusal([&] { open_word_pieces("bert-vocab", folder.path()); },
                 "line 3 repeats \"a\"");
  write_set("bert-vocab", folder.path());
  EXPECT_GT(open_word_pieces("bert-vocab", folder.path()).size(), 200U);
}

TEST(WordPiece, CutsWithTheRealVocabularyAsBertDoes) {
  const char* const data = std::getenv("TOPKNOT_DATA");
  if (data == nullptr) GTEST_SKIP() << "TOPKNOT_DATA does not name the real sets";
  const WordPiece pieces = open_word_pieces("bert-vocab", data);
  ASSERT_EQ(pieces.size(), 30'522U);
  EXPECT_EQ(pieces.begin(), 101);
  EXPECT_EQ(pieces.separator(), 102);
  EXPECT_EQ(pieces.mask(), 103);
  EXPECT_EQ(pieces.encode("Hello, World!"),
            (std::vector<TokenId>{7592, 1010, 2088, 999}));
  EXPECT_EQ(cut(pieces, "The embeddings of tokenization"),
            "the em ##bed ##ding ##s of token ##ization");
}

}  // namespace
}  // namespace topknot::data

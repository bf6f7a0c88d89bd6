// SPDX-License-Identifier: Apache-2.0
//
// Text of a Grammar as words, as word pieces and as documents.
#include "data/generated/generated.h"
#include "data/generated/grammar.h"

namespace topknot::data {

Words make_words(Params& params) {
  const auto count = static_cast<std::size_t>(
      params.integer("words", 2000, 128, 1'000'000, "words of the language"));
  const auto size = static_cast<std::size_t>(
      params.integer("size", 200'000, 100, 1'000'000'000, "words to train on"));
  const auto seed = static_cast<std::uint64_t>(
      params.integer("seed", 1, 0, INT64_MAX, "what the text is drawn from"));
  const Grammar grammar(seed, count);
  Words words;
  for (const std::string& word : grammar.words()) words.vocabulary.add(word);
  words.vocabulary.add(kLineEnd);
  std::vector<TokenId>* const parts[] = {&words.train, &words.valid, &words.test};
  for (std::size_t p = 0; p < 3; ++p) {
    core::Random random(core::random_bits(seed, p + 1));
    std::vector<TokenId>& part = *parts[p];
    const std::size_t wanted = p == 0 ? size : size / 10 + 1;
    while (part.size() < wanted) {
      std::string line;
      const std::size_t topic = random.below(grammar.topics());
      for (std::uint64_t n = random.below(6) + 2; n > 0; --n)
        line += grammar.sentence(topic, random) + ' ';
      const std::vector<TokenId> ids = to_ids(line, words.vocabulary, "generated");
      part.insert(part.end(), ids.begin(), ids.end());
    }
    part.resize(wanted);
  }
  return words;
}

WordPiece make_word_pieces(Params& params) {
  const Grammar grammar(
      static_cast<std::uint64_t>(params.integer("seed", 1, 0, INT64_MAX, "the language")),
      static_cast<std::size_t>(
          params.integer("words", 2000, 128, 1'000'000, "words of the language")));
  Vocabulary vocabulary;
  for (const std::string_view piece : kSpecialPieces) vocabulary.add(piece);
  for (char c = 'a'; c <= 'z'; ++c) {
    vocabulary.add(std::string(1, c));
    vocabulary.add("##" + std::string(1, c));
  }
  for (const std::string& word : grammar.words()) vocabulary.add(word);
  return {std::move(vocabulary), "generated"};
}

Documents make_documents(Params& params, Split split, const WordPiece& pieces) {
  const auto seed = static_cast<std::uint64_t>(
      params.integer("seed", 1, 0, INT64_MAX, "what the text is drawn from"));
  const auto words = static_cast<std::size_t>(
      params.integer("words", 2000, 128, 1'000'000, "words of the language"));
  const auto size = static_cast<std::size_t>(params.integer(
      "size", 2000, 2, 10'000'000, "documents to train on; the test half has a tenth"));
  const Grammar grammar(seed, words);
  core::Random random(core::random_bits(seed, split == Split::train ? 1 : 2));
  Documents documents;
  for (std::size_t d = 0; d < (split == Split::train ? size : size / 10 + 2); ++d) {
    const std::size_t topic = random.below(grammar.topics());
    for (std::uint64_t n = random.below(12) + 4; n > 0; --n)
      documents.add_sentence(pieces.encode(grammar.sentence(topic, random)));
    documents.end_document();
  }
  return documents;
}

}  // namespace topknot::data

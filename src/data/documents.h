// SPDX-License-Identifier: Apache-2.0
//
// Documents of sentences of word pieces, on which BERT is trained.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"
#include "data/split.h"
#include "data/wordpiece.h"

namespace topknot::data {

/// A list of documents. Each has at least one sentence, and no sentence is empty.
class Documents {
 public:
  /// Ends the current document. Does nothing where it has no sentence.
  void end_document();
  void add_sentence(std::span<const TokenId> pieces);

  std::size_t documents() const { return document_ends_.size(); }
  std::size_t sentences() const { return sentence_ends_.size(); }
  std::size_t pieces() const { return pieces_.size(); }
  /// The sentences of document d are [first_sentence(d), first_sentence(d + 1)).
  std::size_t first_sentence(std::size_t d) const {
    return d == 0 ? 0 : document_ends_[d - 1];
  }
  std::span<const TokenId> sentence(std::size_t s) const {
    const std::size_t first = s == 0 ? 0 : sentence_ends_[s - 1];
    return std::span(pieces_).subspan(first, sentence_ends_[s] - first);
  }

 private:
  std::vector<TokenId> pieces_;
  std::vector<std::size_t> sentence_ends_;
  std::vector<std::size_t> document_ends_;
};

/// Opens a data set that has a DocumentsReader, such as "wikipedia-en", or
/// "generated:words=2000,size=2000,seed=1": `size` documents of the generated language. Throws
/// ConfigError at another name, DataError where a file is missing, broken or cut short.
Documents open_documents(std::string_view name, const std::filesystem::path& folder,
                         Split split, const WordPiece& pieces);

/// Cuts a paragraph into sentences. A sentence ends after . ! or ? and the quotes and brackets
/// that close there, where a space and no small letter follow.
std::vector<std::string_view> split_sentences(std::string_view paragraph);

/// One sample for BERT: [CLS] first [SEP] second [SEP], padded to `length` pieces.
struct MaskedPair {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> segments;  ///< 0 up to the first [SEP], then 1
  std::vector<TokenId> targets;  ///< the piece to predict, or -1 where there is none
  std::size_t used = 0;          ///< pieces before the padding
  bool next = false;             ///< the second text follows the first in its document
};

/// Draws pairs of texts for BERT's two tasks, masked words and next sentences (Devlin et al.,
/// 2019). Keeps references to both arguments.
class SentencePairs {
 public:
  /// `length` is at least 8. Throws DataError when there are fewer than two documents.
  SentencePairs(const Documents& documents, const WordPiece& pieces, std::size_t length);

  std::size_t size() const { return stretches_.size(); }
  /// Pair `i`. `random` decides where it is cut, takes the second text from another document
  /// in half of the cases, and chooses 15 % of the pieces as targets; of these 80 % are replaced
  /// by [MASK], 10 % by a random piece, and 10 % stay.
  MaskedPair pair(std::size_t i, core::Random& random) const;

 private:
  struct Stretch {
    std::size_t document, first, last;  // sentences [first, last)
  };

  std::vector<TokenId> gather(std::size_t first, std::size_t last) const;
  std::vector<TokenId> draw_other(std::size_t document, core::Random& random) const;
  void hide(MaskedPair& pair, core::Random& random) const;

  const Documents& documents_;
  const WordPiece& pieces_;
  std::size_t length_;
  std::vector<Stretch> stretches_;
};

}  // namespace topknot::data

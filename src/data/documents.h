// SPDX-License-Identifier: Apache-2.0
//
// Documents of sentences of word pieces: what BERT is trained on.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"
#include "data/split.h"
#include "data/wordpiece.h"

namespace topknot::data {

/// Documents one after another, each of at least one sentence, none of which is empty.
class Documents {
 public:
  /// Ends the document that was begun, if it has a sentence.
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

/// "wikipedia-en" (files in FOLDER/train or FOLDER/valid and the folders below, in
/// alphabetical order: WikiExtractor's <doc ...> ... </doc>, or plain text with an empty line
/// between documents), or "generated:words=2000,size=2000,seed=1", `size` documents of the
/// generated language. Throws ConfigError, or DataError when there is no text or a shard is
/// broken or cut short.
Documents open_documents(std::string_view name, const std::filesystem::path& folder,
                         Split split, const WordPiece& pieces);

/// Cuts a paragraph into sentences: after . ! or ? (and quotes or brackets that close) before
/// a space and what is not a small letter.
std::vector<std::string_view> split_sentences(std::string_view paragraph);

/// What BERT sees at once: [CLS] first [SEP] second [SEP], `length` of all, padded.
struct MaskedPair {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> segments;  ///< 1 from the second sentence on
  std::vector<TokenId>
      targets;           ///< the piece that was there, or -1 where it need not be told
  std::size_t used = 0;  ///< the rest is padding
  bool next = false;     ///< the second does follow the first
};

/// Pairs of stretches of text for masked words and next sentences (Devlin et al., 2019).
/// Refers to both arguments.
class SentencePairs {
 public:
  /// `length` is at least 8. Throws DataError when there are fewer than two documents.
  SentencePairs(const Documents& documents, const WordPiece& pieces, std::size_t length);

  std::size_t size() const { return stretches_.size(); }
  /// Pair `i`, cut, matched and masked by `random`: in half of them the second stretch is from
  /// another document; 15 % of the pieces are to be told, of which 80 % are hidden by [MASK],
  /// 10 % by any piece, and 10 % not at all.
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

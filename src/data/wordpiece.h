// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text.h"

namespace topknot::data {

/// The pieces that every vocabulary must have.
constexpr std::string_view kSpecialPieces[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                               "[MASK]"};

/// BERT's uncased tokenizer (Devlin et al., 2019). It puts text into lower case without accents,
/// splits it at spaces and punctuation, and splits each word from the left into the longest
/// pieces of the vocabulary. Pieces within a word begin with "##".
class WordPiece {
 public:
  /// Throws DataError that names `source` where one of kSpecialPieces is missing.
  WordPiece(Vocabulary vocabulary, const std::filesystem::path& source);

  /// Throws DataError when `text` is not UTF-8.
  std::vector<TokenId> encode(std::string_view text) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t size() const { return vocabulary_.size(); }
  TokenId pad() const { return pad_; }
  TokenId unknown() const { return unknown_; }
  TokenId begin() const { return begin_; }          ///< [CLS]
  TokenId separator() const { return separator_; }  ///< [SEP]
  TokenId mask() const { return mask_; }

 private:
  void append_pieces(std::string_view word, std::vector<TokenId>& ids) const;

  Vocabulary vocabulary_;
  TokenId pad_, unknown_, begin_, separator_, mask_;
};

/// Opens a data set that has a WordPieceReader, such as "bert-vocab", or
/// "generated:words=2000,seed=1": letters and the words of the generated language. Throws
/// ConfigError at another name, DataError where a file is missing or broken.
WordPiece open_word_pieces(std::string_view name, const std::filesystem::path& folder);

}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "data/wordpiece.h"

#include "data/dataset.h"
#include "data/generated/generated.h"
#include "data/unicode.h"

namespace topknot::data {
namespace {

constexpr std::size_t kLongestWord = 100;  // in code points; longer ones are unknown

TokenId need(const Vocabulary& vocabulary, std::string_view piece,
             const std::filesystem::path& source) {
  const std::optional<TokenId> id = vocabulary.find(piece);
  if (!id)
    throw DataError(about(source) + "has no " + std::string(piece) +
                    ", which BERT's vocabulary has.");
  return *id;
}

std::size_t code_points_in(std::string_view word) {
  std::size_t count = 0;
  for (const char c : word)
    count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, const std::filesystem::path& source)
    : vocabulary_(std::move(vocabulary)),
      pad_(need(vocabulary_, kSpecialPieces[0], source)),
      unknown_(need(vocabulary_, kSpecialPieces[1], source)),
      begin_(need(vocabulary_, kSpecialPieces[2], source)),
      separator_(need(vocabulary_, kSpecialPieces[3], source)),
      mask_(need(vocabulary_, kSpecialPieces[4], source)) {}

void WordPiece::append_pieces(std::string_view word, std::vector<TokenId>& ids) const {
  const std::size_t before = ids.size();
  std::string piece;
  bool known = code_points_in(word) <= kLongestWord;
  for (std::size_t at = 0; known && at < word.size();) {
    known = false;
    for (std::size_t end = word.size(); end > at; --end) {
      piece.assign(at == 0 ? "" : "##").append(word.substr(at, end - at));
      const std::optional<TokenId> id = vocabulary_.find(piece);
      if (!id) continue;
      ids.push_back(*id);
      at = end;
      known = true;
      break;
    }
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

std::vector<TokenId> WordPiece::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) append_pieces(word, ids);
    word.clear();
  };
  const std::size_t size = text.size();
  while (!text.empty()) {
    const std::optional<char32_t> next = next_code_point(text);
    if (!next)
      throw DataError("The text is not UTF-8 at byte " +
                      std::to_string(size - text.size()) + ".");
    const bool alone = is_ideograph(*next);
    if (alone || is_space(*next)) end_word();
    if (is_space(*next) || is_control(*next)) continue;
    for (const char32_t plain : fold(*next)) {
      const bool punctuation = is_punctuation(plain);
      if (punctuation) end_word();
      append_code_point(word, plain);
      if (punctuation) end_word();
    }
    if (alone) end_word();
  }
  end_word();
  return ids;
}

WordPiece open_word_pieces(std::string_view name, const std::filesystem::path& folder) {
  Spec spec = Spec::parse(name);
  if (spec.name == "generated") {
    WordPiece pieces = make_word_pieces(spec.params);
    spec.params.refuse_unknown("generated word pieces");
    return pieces;
  }
  const Dataset& set =
      find_dataset_of<WordPieceReader>(spec.name, "There are no word pieces");
  spec.params.refuse_unknown(spec.name);
  return std::get<WordPieceReader>(set.reader).open(find_folder(set, folder));
}

}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "data/wordpiece.h"

#include "data/file.h"
#include "data/grammar.h"
#include "data/sets.h"
#include "data/unicode.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::data {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 26;
constexpr std::size_t kLongestWord = 100;  // in code points; longer ones are unknown
constexpr std::string_view kSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

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

Vocabulary read_vocabulary(const std::filesystem::path& file) {
  const std::string text = read_text(file, kMostBytes);
  Vocabulary vocabulary;
  std::size_t number = 0;
  for_each_line(text, [&](std::string_view line) {
    ++number;
    if (line.empty())
      throw DataError(about(file) + "line " + std::to_string(number) + " is empty.");
    if (static_cast<std::size_t>(vocabulary.add(line)) + 1 != number)
      throw DataError(about(file) + "line " + std::to_string(number) + " repeats " +
                      in_quotes(line) + ".");
  });
  return vocabulary;
}

Vocabulary make_vocabulary(Params& params) {
  const Grammar grammar(
      static_cast<std::uint64_t>(params.integer("seed", 1, 0, INT64_MAX, "the language")),
      static_cast<std::size_t>(
          params.integer("words", 2000, 128, 1'000'000, "words of the language")));
  Vocabulary vocabulary;
  for (const std::string_view piece : kSpecial) vocabulary.add(piece);
  for (char c = 'a'; c <= 'z'; ++c) {
    vocabulary.add(std::string(1, c));
    vocabulary.add("##" + std::string(1, c));
  }
  for (const std::string& word : grammar.words()) vocabulary.add(word);
  return vocabulary;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, const std::filesystem::path& source)
    : vocabulary_(std::move(vocabulary)),
      pad_(need(vocabulary_, kSpecial[0], source)),
      unknown_(need(vocabulary_, kSpecial[1], source)),
      begin_(need(vocabulary_, kSpecial[2], source)),
      separator_(need(vocabulary_, kSpecial[3], source)),
      mask_(need(vocabulary_, kSpecial[4], source)) {}

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
    WordPiece pieces(make_vocabulary(spec.params), "generated");
    spec.params.refuse_unknown("generated word pieces");
    return pieces;
  }
  if (spec.name != "bert-vocab")
    throw ConfigError("There are no word pieces " + in_quotes(spec.name) +
                      "; there are bert-vocab and generated.");
  spec.params.refuse_unknown(spec.name);
  const std::filesystem::path file =
      find_folder(find_set(spec.name), folder) / "vocab.txt";
  return {read_vocabulary(file), file};
}

}  // namespace topknot::data

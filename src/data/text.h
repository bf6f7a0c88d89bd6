// SPDX-License-Identifier: Apache-2.0
//
// Vocabularies, and corpora for language models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace topknot::data {

using TokenId = std::int32_t;

/// Words and their ids, which are 0, 1, ... in the order of `add`.
class Vocabulary {
 public:
  /// Returns the word's id, and gives it the next one where it has none.
  TokenId add(std::string_view word);
  std::optional<TokenId> find(std::string_view word) const;
  const std::string& word(TokenId id) const { return words_.at(static_cast<size_t>(id)); }
  std::size_t size() const { return words_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };
  std::vector<std::string> words_;
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
};

/// A corpus for a language model: the ids of its words, with "<eos>" at the end of each line.
struct Words {
  Vocabulary vocabulary;  ///< of the training part, in order of appearance
  std::vector<TokenId> train;
  std::vector<TokenId> valid;
  std::vector<TokenId> test;
};

/// Opens a data set that has a WordsReader, such as "wikitext2", or
/// "generated:words=2000,size=200000,seed=1": `size` words of a random grammar to train on, and
/// a tenth of that in each other part. Throws ConfigError at another name, DataError where a
/// file is missing or empty or has a word that the training part lacks.
Words open_words(std::string_view name, const std::filesystem::path& folder);

/// The word for the end of a line.
constexpr std::string_view kLineEnd = "<eos>";

/// The ids of all words in `text`, with "<eos>" after each line. Throws DataError that names
/// `file` and the line at a word that `vocabulary` lacks.
std::vector<TokenId> to_ids(std::string_view text, const Vocabulary& vocabulary,
                            const std::filesystem::path& file);

/// Calls `use(line)` for every line of `text`, without the line end.
template <typename Use>
void for_each_line(std::string_view text, Use use) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    use(line);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

/// Calls `use(word)` for every word of a line; spaces and tabs separate words.
template <typename Use>
void for_each_word(std::string_view line, Use use) {
  std::size_t at = 0;
  while ((at = line.find_first_not_of(" \t", at)) != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    use(line.substr(at, end - at));
    at = end;
  }
}

}  // namespace topknot::data

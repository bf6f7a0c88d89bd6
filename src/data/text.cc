// SPDX-License-Identifier: Apache-2.0
#include "data/text.h"

#include "data/dataset.h"
#include "data/generated/generated.h"

namespace topknot::data {

namespace fs = std::filesystem;

TokenId Vocabulary::add(std::string_view word) {
  const auto found = ids_.find(word);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<TokenId>(words_.size());
  words_.emplace_back(word);
  ids_.emplace(words_.back(), id);
  return id;
}

std::optional<TokenId> Vocabulary::find(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<TokenId> to_ids(std::string_view text, const Vocabulary& vocabulary,
                            const fs::path& file) {
  std::vector<TokenId> ids;
  std::size_t number = 0;
  const auto append = [&](std::string_view word) {
    const std::optional<TokenId> id = vocabulary.find(word);
    if (!id)
      throw DataError(about(file) + "line " + std::to_string(number) + " has " +
                      in_quotes(word) + ", which is not in the vocabulary of " +
                      std::to_string(vocabulary.size()) + " words.");
    ids.push_back(*id);
  };
  for_each_line(text, [&](std::string_view line) {
    ++number;
    for_each_word(line, append);
    append(kLineEnd);
  });
  return ids;
}

Words open_words(std::string_view name, const fs::path& folder) {
  Spec spec = Spec::parse(name);
  if (spec.name == "generated") {
    Words words = make_words(spec.params);
    spec.params.refuse_unknown("generated text");
    return words;
  }
  const Dataset& set = find_dataset_of<WordsReader>(spec.name, "There is no corpus");
  spec.params.refuse_unknown(spec.name);
  return std::get<WordsReader>(set.reader).open(find_folder(set, folder));
}

}  // namespace topknot::data

// SPDX-License-Identifier: Apache-2.0
#include "data/text.h"

#include "data/file.h"
#include "data/grammar.h"
#include "data/sets.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 31;
constexpr std::string_view kLineEnd = "<eos>";

Words from_texts(const std::string (&texts)[3], const fs::path (&files)[3]) {
  Words words;
  for_each_line(texts[0], [&](std::string_view line) {
    for_each_word(line, [&](std::string_view word) { words.vocabulary.add(word); });
    words.vocabulary.add(kLineEnd);
  });
  std::vector<TokenId>* const parts[] = {&words.train, &words.valid, &words.test};
  for (std::size_t p = 0; p < 3; ++p) {
    *parts[p] = to_ids(texts[p], words.vocabulary, files[p]);
    if (parts[p]->empty()) throw DataError(about(files[p]) + "there is no word in it.");
  }
  return words;
}

Words read_wikitext(const fs::path& folder) {
  std::string texts[3];
  fs::path files[3];
  const char* const names[] = {"train", "valid", "test"};
  std::error_code error;
  for (std::size_t p = 0; p < 3; ++p) {
    files[p] = folder / ("wiki." + std::string(names[p]) + ".tokens");
    const fs::path other = folder / (std::string(names[p]) + ".txt");
    if (!fs::exists(files[p], error) && fs::exists(other, error)) files[p] = other;
    texts[p] = read_text(files[p], kMostBytes);
  }
  return from_texts(texts, files);
}

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

}  // namespace

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
  if (spec.name != "wikitext2")
    throw ConfigError("There is no corpus " + in_quotes(spec.name) + "; there are " +
                      "wikitext2 and generated.");
  spec.params.refuse_unknown(spec.name);
  return read_wikitext(find_folder(find_set(spec.name), folder));
}

}  // namespace topknot::data

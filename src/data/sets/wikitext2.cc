// SPDX-License-Identifier: Apache-2.0
//
// WikiText-2: wiki.{train,valid,test}.tokens or {train,valid,test}.txt, words separated by spaces.
#include "data/dataset.h"
#include "data/text.h"

namespace topknot::data::sets {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 31;

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

Words open(const fs::path& folder) {
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

}  // namespace

Dataset wikitext2() {
  return {
      .name = "wikitext2",
      .summary = "2.5 million words of good Wikipedia articles",
      .licence = "CC BY-SA 3.0",
      .folder = "wikitext-2",
      .megabytes = 4.5,
      .packing = Packing::zip,
      .archives = {{"wikitext-2-v1.zip",
                    "https://s3.amazonaws.com/research.metamind.io/wikitext/"
                    "wikitext-2-v1.zip",
                    "sha256:"
                    "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c"}},
      .members = {"wikitext-2/wiki.train.tokens", "wikitext-2/wiki.valid.tokens",
                  "wikitext-2/wiki.test.tokens", "wikitext-2/"},
      .marks = {"wiki.train.tokens", "train.txt", "wiki.test.tokens", "test.txt"},
      .reader = WordsReader{open}};
}

}  // namespace topknot::data::sets

// SPDX-License-Identifier: Apache-2.0
//
// BERT's vocabulary: vocab.txt, a word piece a line.
#include "data/dataset.h"
#include "data/wordpiece.h"

namespace topknot::data::sets {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 26;

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

WordPiece open(const fs::path& folder) {
  const fs::path file = folder / "vocab.txt";
  return {read_vocabulary(file), file};
}

}  // namespace

Dataset bert_vocab() {
  return {
      .name = "bert-vocab",
      .summary = "BERT's vocabulary of 30,522 lower-case word pieces",
      .licence = "Apache-2.0",
      .folder = "bert-vocab",
      .megabytes = 0.2,
      .archives = {{"vocab.txt",
                    "https://huggingface.co/bert-base-uncased/resolve/main/vocab.txt",
                    "sha256:"
                    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"}},
      .marks = {"vocab.txt"},
      .reader = WordPieceReader{open}};
}

}  // namespace topknot::data::sets

// SPDX-License-Identifier: Apache-2.0
//
// English Wikipedia: all files below train/ or valid/ in alphabetical order. A file is
// WikiExtractor's <doc ...> ... </doc>, or plain text with an empty line between documents.
#include <algorithm>
#include <system_error>

#include "data/dataset.h"
#include "data/documents.h"

namespace topknot::data::sets {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 31;  // of one shard

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->is_regular_file(error) && !at->path().filename().string().starts_with('.'))
      files.push_back(at->path());
  if (error)
    throw DataError(about(folder) + "cannot be listed (" + error.message() + ").");
  if (files.empty()) throw DataError(about(folder) + "there is no shard in it.");
  std::sort(files.begin(), files.end());
  return files;
}

/// Reads one shard line by line.
class Shard {
 public:
  Shard(const fs::path& file, const WordPiece& pieces, Documents& documents)
      : file_(file), pieces_(pieces), documents_(documents) {}

  void read() {
    const std::string text = read_text(file_, kMostBytes);
    for_each_line(text, [&](std::string_view line) { take(line); });
    if (inside_) refuse("ends within a <doc>: it was cut short");
    documents_.end_document();
  }

 private:
  void take(std::string_view line) {
    ++number_;
    if (line.starts_with("<doc ")) {
      if (inside_) refuse("begins a <doc> within another");
      if (!line.ends_with('>')) refuse("has a <doc that is not closed by >");
      documents_.end_document();
      inside_ = wiki_ = title_ = true;
    } else if (line == "</doc>") {
      if (!inside_) refuse("ends a <doc> that was not begun");
      documents_.end_document();
      inside_ = false;
    } else if (line.find_first_not_of(" \t") == std::string_view::npos) {
      if (!inside_) documents_.end_document();
    } else if (wiki_ && !inside_) {
      refuse("has text between documents");
    } else if (title_) {
      title_ = false;
    } else {
      append(line);
    }
  }

  void append(std::string_view paragraph) {
    try {
      for (const std::string_view sentence : split_sentences(paragraph))
        documents_.add_sentence(pieces_.encode(sentence));
    } catch (const DataError& error) {
      refuse(std::string("cannot be read: ") + error.what());
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(about(file_) + "line " + std::to_string(number_) + " " + what + ".");
  }

  const fs::path& file_;
  const WordPiece& pieces_;
  Documents& documents_;
  std::size_t number_ = 0;
  bool inside_ = false;
  bool wiki_ = false;   // the shard has <doc>s
  bool title_ = false;  // the first line of a <doc> repeats its title
};

Documents open(const fs::path& folder, Split split, const WordPiece& pieces) {
  const fs::path half = folder / (split == Split::train ? "train" : "valid");
  Documents documents;
  for (const fs::path& file : shards_in(half)) Shard(file, pieces, documents).read();
  if (documents.documents() == 0)
    throw DataError(about(half) + "there is no text in it.");
  return documents;
}

}  // namespace

Dataset wikipedia_en() {
  return {.name = "wikipedia-en",
          .summary = "English Wikipedia as WikiExtractor's shards",
          .licence = "CC BY-SA 4.0",
          .folder = "wikipedia-en",
          .megabytes = 21'000,
          .marks = {"train", "valid"},
          .by_hand =
              "take a dump from https://dumps.wikimedia.org/enwiki, run WikiExtractor "
              "on it, and put its folders into DIR/train and a few shards into "
              "DIR/valid",
          .reader = DocumentsReader{open}};
}

}  // namespace topknot::data::sets

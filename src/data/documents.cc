// SPDX-License-Identifier: Apache-2.0
#include "data/documents.h"

#include <algorithm>
#include <system_error>

#include "data/file.h"
#include "data/grammar.h"
#include "data/sets.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::data {
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

/// Reads one shard; what it knows between lines is whether it is within a <doc>.
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

Documents make_documents(Params& params, Split split, const WordPiece& pieces) {
  const auto seed = static_cast<std::uint64_t>(
      params.integer("seed", 1, 0, INT64_MAX, "what the text is drawn from"));
  const auto words = static_cast<std::size_t>(
      params.integer("words", 2000, 128, 1'000'000, "words of the language"));
  const auto size = static_cast<std::size_t>(params.integer(
      "size", 2000, 2, 10'000'000, "documents to train on; the test half has a tenth"));
  const Grammar grammar(seed, words);
  core::Random random(core::random_bits(seed, split == Split::train ? 1 : 2));
  Documents documents;
  for (std::size_t d = 0; d < (split == Split::train ? size : size / 10 + 2); ++d) {
    const std::size_t topic = random.below(grammar.topics());
    for (std::uint64_t n = random.below(12) + 4; n > 0; --n)
      documents.add_sentence(pieces.encode(grammar.sentence(topic, random)));
    documents.end_document();
  }
  return documents;
}

}  // namespace

void Documents::add_sentence(std::span<const TokenId> pieces) {
  if (pieces.empty()) return;
  pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
  sentence_ends_.push_back(pieces_.size());
}

void Documents::end_document() {
  const std::size_t before = document_ends_.empty() ? 0 : document_ends_.back();
  if (sentence_ends_.size() > before) document_ends_.push_back(sentence_ends_.size());
}

std::vector<std::string_view> split_sentences(std::string_view paragraph) {
  std::vector<std::string_view> sentences;
  std::size_t first = 0;
  for (std::size_t i = 0; i < paragraph.size(); ++i) {
    if (std::string_view(".!?").find(paragraph[i]) == std::string_view::npos) continue;
    std::size_t end = i + 1;
    while (end < paragraph.size() &&
           std::string_view("\"')]").find(paragraph[end]) != std::string_view::npos)
      ++end;
    if (end + 1 >= paragraph.size() || paragraph[end] != ' ') continue;
    const char after = paragraph[end + 1];
    if ((after >= 'a' && after <= 'z') || after == ' ') continue;
    sentences.push_back(paragraph.substr(first, end - first));
    first = end + 1;
    i = end;
  }
  if (first < paragraph.size()) sentences.push_back(paragraph.substr(first));
  return sentences;
}

Documents open_documents(std::string_view name, const fs::path& folder, Split split,
                         const WordPiece& pieces) {
  Spec spec = Spec::parse(name);
  if (spec.name == "generated") {
    Documents documents = make_documents(spec.params, split, pieces);
    spec.params.refuse_unknown("generated documents");
    return documents;
  }
  if (spec.name != "wikipedia-en")
    throw ConfigError("There are no documents " + in_quotes(spec.name) +
                      "; there are wikipedia-en and generated.");
  spec.params.refuse_unknown(spec.name);
  const fs::path half = find_folder(find_set(spec.name), folder) /
                        (split == Split::train ? "train" : "valid");
  Documents documents;
  for (const fs::path& file : shards_in(half)) Shard(file, pieces, documents).read();
  if (documents.documents() == 0)
    throw DataError(about(half) + "there is no text in it.");
  return documents;
}

}  // namespace topknot::data

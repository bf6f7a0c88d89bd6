// SPDX-License-Identifier: Apache-2.0
#include "data/documents.h"

#include "data/dataset.h"
#include "data/generated/generated.h"

namespace topknot::data {

namespace fs = std::filesystem;

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
  const Dataset& set =
      find_dataset_of<DocumentsReader>(spec.name, "There are no documents");
  spec.params.refuse_unknown(spec.name);
  return std::get<DocumentsReader>(set.reader)
      .open(find_folder(set, folder), split, pieces);
}

}  // namespace topknot::data

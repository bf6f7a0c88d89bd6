// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_summary.h"

#include "data/documents.h"
#include "data/images.h"
#include "data/ratings.h"
#include "data/speech.h"
#include "data/text.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

DatasetSummary of_images(const Set& set, const fs::path& folder) {
  const auto train = open_images(set.name, folder, Split::train);
  const auto test = open_images(set.name, folder, Split::test);
  return {{"training images", train->size()},
          {"test images", test->size()},
          {"classes", static_cast<std::size_t>(train->classes())}};
}

DatasetSummary of_words(const fs::path& folder) {
  const Words words = open_words("wikitext2", folder);
  return {{"training words", words.train.size()},
          {"validation words", words.valid.size()},
          {"test words", words.test.size()},
          {"different words", words.vocabulary.size()}};
}

DatasetSummary of_documents(const fs::path& folder) {
  // Any word pieces do to see that all can be read.
  const WordPiece pieces = open_word_pieces("generated", {});
  const Documents train = open_documents("wikipedia-en", folder, Split::train, pieces);
  const Documents test = open_documents("wikipedia-en", folder, Split::test, pieces);
  return {{"training documents", train.documents()},
          {"test documents", test.documents()},
          {"training sentences", train.sentences()}};
}

DatasetSummary of_speech(const fs::path& folder) {
  DatasetSummary summary;
  std::size_t samples = 0;
  for (const Split split : {Split::train, Split::test}) {
    const auto speech = open_speech("an4", folder, split);
    for (std::size_t i = 0; i < speech->size(); ++i) samples += speech->samples(i).size();
    summary.emplace_back(
        split == Split::train ? "training utterances" : "test utterances",
        speech->size());
  }
  summary.emplace_back("seconds", samples / kSampleRate);
  return summary;
}

DatasetSummary of_ratings(const Set& set, const fs::path& folder) {
  const Ratings ratings = open_ratings(set.name, folder);
  return {{"training ratings", ratings.train().size()},
          {"users", ratings.users()},
          {"items", ratings.items()}};
}

}  // namespace

DatasetSummary summarize(const Set& set, const fs::path& folder) {
  if (set.name == "wikitext2") return of_words(folder);
  if (set.name == "wikipedia-en") return of_documents(folder);
  if (set.name == "bert-vocab")
    return {{"word pieces", open_word_pieces(set.name, folder).size()}};
  if (set.name == "an4") return of_speech(folder);
  if (set.name == "ml-1m" || set.name == "ml-20m") return of_ratings(set, folder);
  return of_images(set, folder);
}

}  // namespace topknot::data

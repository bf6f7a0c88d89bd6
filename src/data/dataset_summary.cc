// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_summary.h"

#include "data/documents.h"
#include "data/ratings.h"
#include "data/speech.h"
#include "data/text.h"

namespace topknot::data {
namespace {

/// Counts what each kind of reader finds.
struct Counter {
  const std::filesystem::path& folder;

  DatasetSummary operator()(const ImageReader& reader) const {
    Params defaults;
    const auto train = reader.open(folder, Split::train, defaults);
    const auto test = reader.open(folder, Split::test, defaults);
    return {{"training images", train->size()},
            {"test images", test->size()},
            {"classes", static_cast<std::size_t>(train->classes())}};
  }

  DatasetSummary operator()(const WordsReader& reader) const {
    const Words words = reader.open(folder);
    return {{"training words", words.train.size()},
            {"validation words", words.valid.size()},
            {"test words", words.test.size()},
            {"different words", words.vocabulary.size()}};
  }

  DatasetSummary operator()(const WordPieceReader& reader) const {
    return {{"word pieces", reader.open(folder).size()}};
  }

  DatasetSummary operator()(const DocumentsReader& reader) const {
    // The counts do not depend on the word pieces.
    const WordPiece pieces = open_word_pieces("generated", {});
    const Documents train = reader.open(folder, Split::train, pieces);
    const Documents test = reader.open(folder, Split::test, pieces);
    return {{"training documents", train.documents()},
            {"test documents", test.documents()},
            {"training sentences", train.sentences()}};
  }

  DatasetSummary operator()(const SpeechReader& reader) const {
    DatasetSummary summary;
    std::size_t samples = 0;
    for (const Split split : {Split::train, Split::test}) {
      const auto speech = reader.open(folder, split);
      for (std::size_t i = 0; i < speech->size(); ++i)
        samples += speech->samples(i).size();
      summary.emplace_back(
          split == Split::train ? "training utterances" : "test utterances",
          speech->size());
    }
    summary.emplace_back("seconds", samples / kSampleRate);
    return summary;
  }

  DatasetSummary operator()(const RatingsReader& reader) const {
    const Ratings ratings = reader.open(folder);
    return {{"training ratings", ratings.train().size()},
            {"users", ratings.users()},
            {"items", ratings.items()}};
  }
};

}  // namespace

DatasetSummary summarize(const Dataset& set, const std::filesystem::path& folder) {
  return std::visit(Counter{find_folder(set, folder)}, set.reader);
}

}  // namespace topknot::data

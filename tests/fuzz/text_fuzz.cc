// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as text, in ways that the first byte of an input chooses between: the three
// parts of a corpus; a vocabulary of word pieces and a text; a shard of documents, from
// which pairs are then drawn.
#include "data/documents.h"
#include "fuzz/files.h"

namespace {

using namespace topknot;
using namespace topknot::fuzz;
using data::TokenId;

void check_ids(std::span<const TokenId> ids, std::size_t words) {
  for (const TokenId id : ids) require(id >= 0 && static_cast<std::size_t>(id) < words);
}

void check_words(Files& files, std::span<const std::uint8_t> bytes) {
  const auto texts = parts(bytes, 3);
  files.write("wikitext/wiki.train.tokens", texts[0]);
  files.write("wikitext/wiki.valid.tokens", texts[1]);
  files.write("wikitext/wiki.test.tokens", texts[2]);
  read_or_refuse([&] {
    const data::Words words = data::open_words("wikitext2", files.folder() / "wikitext");
    for (const auto* part : {&words.train, &words.valid, &words.test}) {
      require(!part->empty());
      check_ids(*part, words.vocabulary.size());
    }
  });
}

void check_pieces(Files& files, std::span<const std::uint8_t> bytes) {
  const auto texts = parts(bytes, 2);
  files.write("pieces/vocab.txt", texts[0]);
  read_or_refuse([&] {
    const auto pieces = data::open_word_pieces("bert-vocab", files.folder() / "pieces");
    const std::vector<TokenId> ids = pieces.encode(text_of(texts[1]));
    require(ids.size() <= 3 * texts[1].size());
    check_ids(ids, pieces.size());
  });
}

void check_pair(const data::MaskedPair& pair, std::size_t length,
                const data::WordPiece& pieces) {
  require(pair.ids.size() == length && pair.targets.size() == length);
  require(pair.segments.size() == length && pair.used <= length);
  check_ids(pair.ids, pieces.size());
  for (std::size_t i = pair.used; i < length; ++i)
    require(pair.ids[i] == pieces.pad() && pair.targets[i] == -1);
}

void check_documents(Files& files, Input& input) {
  static const data::WordPiece pieces = data::open_word_pieces("generated:words=128", "");
  const std::size_t length = 8 + input.byte() % 40;
  files.write("wikipedia/train/shard", input.left());
  read_or_refuse([&] {
    const data::Documents documents = data::open_documents(
        "wikipedia-en", files.folder() / "wikipedia", data::Split::train, pieces);
    for (std::size_t s = 0; s < documents.sentences(); ++s) {
      require(!documents.sentence(s).empty());
      check_ids(documents.sentence(s), pieces.size());
    }
    require(documents.first_sentence(documents.documents()) == documents.sentences());
    const data::SentencePairs pairs(documents, pieces, length);
    core::Random random(length);
    for (std::size_t i = 0; i < std::min<std::size_t>(pairs.size(), 20); ++i)
      check_pair(pairs.pair(i, random), length, pieces);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Files files;
  Input input({data, size});
  switch (input.byte() % 3) {
    case 0:
      check_words(files, input.left());
      break;
    case 1:
      check_pieces(files, input.left());
      break;
    default:
      check_documents(files, input);
      break;
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Consecutive sentences of a document are joined until they fill a pair. Such a stretch is cut
// at a random sentence, and its second part stays or is replaced by sentences of another
// document. Where a pair is too long, the longer text loses its end.
#include <algorithm>
#include <numeric>

#include "data/documents.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

constexpr std::size_t kMarks = 3;  // [CLS], [SEP], [SEP]

void truncate(std::vector<TokenId>& first, std::vector<TokenId>& second,
              std::size_t room) {
  while (first.size() + second.size() > room)
    (first.size() > second.size() ? first : second).pop_back();
}

}  // namespace

SentencePairs::SentencePairs(const Documents& documents, const WordPiece& pieces,
                             std::size_t length)
    : documents_(documents), pieces_(pieces), length_(length) {
  if (length < 8)
    throw ConfigError("The length of a pair of sentences must be at least 8.");
  if (documents.documents() < 2)
    throw DataError("Pairs of sentences need two documents or more.");
  for (std::size_t d = 0; d < documents.documents(); ++d) {
    const std::size_t end = documents.first_sentence(d + 1);
    for (std::size_t s = documents.first_sentence(d); s < end;) {
      Stretch stretch{d, s, s};
      std::size_t held = 0;
      while (stretch.last < end && held < length - kMarks)
        held += documents.sentence(stretch.last++).size();
      stretches_.push_back(stretch);
      s = stretch.last;
    }
  }
}

std::vector<TokenId> SentencePairs::gather(std::size_t first, std::size_t last) const {
  std::vector<TokenId> all;
  for (std::size_t s = first; s < last && all.size() < length_; ++s) {
    const std::span<const TokenId> sentence = documents_.sentence(s);
    all.insert(all.end(), sentence.begin(), sentence.end());
  }
  return all;
}

std::vector<TokenId> SentencePairs::draw_other(std::size_t document,
                                               core::Random& random) const {
  std::size_t other = random.below(documents_.documents() - 1);
  if (other >= document) ++other;
  const std::size_t first = documents_.first_sentence(other);
  const std::size_t last = documents_.first_sentence(other + 1);
  return gather(first + random.below(last - first), last);
}

MaskedPair SentencePairs::pair(std::size_t i, core::Random& random) const {
  if (i >= size())
    throw ContractError("There is no pair " + std::to_string(i) + ": there are " +
                        std::to_string(size()) + ", counted from 0.");
  const Stretch& stretch = stretches_[i];
  const std::size_t sentences = stretch.last - stretch.first;
  const std::size_t cut =
      stretch.first + 1 + (sentences > 2 ? random.below(sentences - 1) : 0);
  const bool keep = (random.bits() >> 63) != 0;
  std::vector<TokenId> first = gather(stretch.first, cut);
  MaskedPair pair;
  pair.next = keep && sentences > 1;
  std::vector<TokenId> second =
      pair.next ? gather(cut, stretch.last) : draw_other(stretch.document, random);
  truncate(first, second, length_ - kMarks);

  pair.ids.push_back(pieces_.begin());
  pair.ids.insert(pair.ids.end(), first.begin(), first.end());
  pair.ids.push_back(pieces_.separator());
  pair.segments.assign(pair.ids.size(), 0);
  pair.ids.insert(pair.ids.end(), second.begin(), second.end());
  pair.ids.push_back(pieces_.separator());
  pair.used = pair.ids.size();
  pair.segments.resize(pair.used, 1);
  pair.segments.resize(length_, 0);
  pair.ids.resize(length_, pieces_.pad());
  pair.targets.assign(length_, -1);
  hide(pair, random);
  return pair;
}

void SentencePairs::hide(MaskedPair& pair, core::Random& random) const {
  std::vector<std::size_t> places;
  for (std::size_t p = 0; p < pair.used; ++p)
    if (pair.ids[p] != pieces_.begin() && pair.ids[p] != pieces_.separator())
      places.push_back(p);
  const std::size_t told = std::max<std::size_t>(1, (places.size() * 15 + 50) / 100);
  for (std::size_t n = 0; n < told && n < places.size(); ++n) {
    std::swap(places[n], places[n + random.below(places.size() - n)]);
    const std::size_t p = places[n];
    pair.targets[p] = pair.ids[p];
    const std::uint64_t die = random.below(10);
    const std::uint64_t any = random.below(pieces_.size());
    if (die < 8) pair.ids[p] = pieces_.mask();
    if (die == 8) pair.ids[p] = static_cast<TokenId>(any);
  }
}

}  // namespace topknot::data

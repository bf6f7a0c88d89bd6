// SPDX-License-Identifier: Apache-2.0
#include "data/fingerprint.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "core/hash.h"

namespace topknot::data {
namespace {

constexpr std::size_t kImagesRead = 256;  // of a set that is not in memory
constexpr std::size_t kLabelsRead = std::size_t{1} << 21;

template <typename T>
void add(core::Hasher& hasher, std::span<const T> values) {
  const std::uint64_t size = values.size();
  hasher.add(std::as_bytes(std::span(&size, 1)));
  hasher.add(std::as_bytes(values));
}

void add(core::Hasher& hasher, std::string_view text) {
  add(hasher, std::span<const char>(text));
}

void add(core::Hasher& hasher, std::uint64_t number) {
  hasher.add(std::as_bytes(std::span(&number, 1)));
}

}  // namespace

std::uint64_t fingerprint(const Images& images) {
  core::Hasher hasher;
  const ImageShape shape = images.shape();
  for (const std::uint64_t number :
       {std::uint64_t{images.size()}, static_cast<std::uint64_t>(images.classes()),
        std::uint64_t{shape.channels}, std::uint64_t{shape.height},
        std::uint64_t{shape.width}})
    add(hasher, number);
  for (std::size_t i = 0; i < images.size(); i += images.size() / kLabelsRead + 1)
    add(hasher, static_cast<std::uint64_t>(images.label(i)));
  const std::size_t gap = images.in_memory() ? 1 : images.size() / kImagesRead + 1;
  std::vector<std::uint8_t> pixels(shape.size());
  for (std::size_t i = 0; i < images.size(); i += gap) {
    images.read(i, pixels);
    add(hasher, std::span<const std::uint8_t>(pixels));
  }
  return hasher.value();
}

std::uint64_t fingerprint(const Words& words) {
  core::Hasher hasher;
  for (std::size_t id = 0; id < words.vocabulary.size(); ++id)
    add(hasher, words.vocabulary.word(static_cast<TokenId>(id)));
  for (const std::vector<TokenId>* part : {&words.train, &words.valid, &words.test})
    add(hasher, std::span<const TokenId>(*part));
  return hasher.value();
}

std::uint64_t fingerprint(const Documents& documents) {
  core::Hasher hasher;
  for (std::size_t d = 0; d <= documents.documents(); ++d)
    add(hasher, documents.first_sentence(d));
  for (std::size_t s = 0; s < documents.sentences(); ++s)
    add(hasher, documents.sentence(s));
  return hasher.value();
}

std::uint64_t fingerprint(const Ratings& ratings) {
  core::Hasher hasher;
  add(hasher, ratings.items());
  add(hasher, ratings.train());
  for (std::uint32_t user = 0; user < ratings.users(); ++user) {
    add(hasher, ratings.held_out(user));
    add(hasher, ratings.negatives(user));
  }
  return hasher.value();
}

std::uint64_t fingerprint(const Speech& speech) {
  core::Hasher hasher;
  for (std::size_t i = 0; i < speech.size(); ++i) {
    add(hasher, speech.transcript(i));
    const std::vector<float> samples = speech.samples(i);
    add(hasher, std::span<const float>(samples));
  }
  return hasher.value();
}

}  // namespace topknot::data

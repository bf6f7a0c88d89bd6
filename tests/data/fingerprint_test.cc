// SPDX-License-Identifier: Apache-2.0
#include "data/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

#include "data/formats/stored_images.h"
#include "data/write_sets.h"

namespace topknot::data {
namespace {

constexpr ImageShape kShape{.channels = 1, .height = 2, .width = 3};

std::uint64_t of_stored(Bytes pixels, Bytes labels) {
  return fingerprint(StoredImages(kShape, 10, std::move(pixels), std::move(labels)));
}

TEST(Fingerprint, TellsEveryPixelAndEveryLabelOfImagesInMemory) {
  const Bytes pixels(4 * kShape.size(), 7);
  const Bytes labels(4, 3);
  std::set<std::uint64_t> all = {of_stored(pixels, labels)};
  EXPECT_EQ(of_stored(pixels, labels), *all.begin());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    Bytes other = pixels;
    other[i] ^= 1;
    all.insert(of_stored(other, labels));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Bytes other = labels;
    other[i] ^= 1;
    all.insert(of_stored(pixels, other));
  }
  EXPECT_EQ(all.size(), 1 + pixels.size() + labels.size());
}

TEST(Fingerprint, TellsSetsThatAreNotInMemoryBySizeAndDraw) {
  const auto of = [](const char* name) {
    return fingerprint(*open_images(name, "", Split::train));
  };
  const std::uint64_t one = of("generated:size=700,side=8");
  EXPECT_EQ(of("generated:size=700,side=8"), one);
  for (const char* other :
       {"generated:size=701,side=8", "generated:size=700,side=9",
        "generated:size=700,side=8,seed=2", "generated:size=700,side=8,channels=1",
        "generated:size=700,side=8,classes=9", "generated:size=700,side=8,noise=11"})
    EXPECT_NE(of(other), one) << other;
}

TEST(Fingerprint, TellsEveryWordOfACorpus) {
  const Words words = open_words("generated:words=128,size=500,seed=1", "");
  const std::uint64_t one = fingerprint(words);
  EXPECT_EQ(fingerprint(open_words("generated:words=128,size=500,seed=1", "")), one);
  for (auto part : {&Words::train, &Words::valid, &Words::test}) {
    Words other = words;
    (other.*part).back() ^= 1;
    EXPECT_NE(fingerprint(other), one);
  }
  Words moved = words;  // the same words in a row, cut elsewhere
  moved.valid.insert(moved.valid.begin(), moved.train.back());
  moved.train.pop_back();
  EXPECT_NE(fingerprint(moved), one);
  Words named = words;
  named.vocabulary.add("another");
  EXPECT_NE(fingerprint(named), one);
}

TEST(Fingerprint, TellsWhereSentencesAndDocumentsEnd) {
  const auto of = [](std::vector<std::vector<std::vector<TokenId>>> documents) {
    Documents made;
    for (const auto& document : documents) {
      for (const auto& sentence : document) made.add_sentence(sentence);
      made.end_document();
    }
    return fingerprint(made);
  };
  const std::set<std::uint64_t> all = {of({{{1, 2}, {3}}}),   of({{{1}, {2, 3}}}),
                                       of({{{1, 2}}, {{3}}}), of({{{1, 2, 3}}}),
                                       of({{{1, 2}, {4}}}),   of({{{1, 2}, {3}}})};
  EXPECT_EQ(all.size(), 5U);
}

TEST(Fingerprint, TellsRatingsHeldOutItemsAndNegatives) {
  std::vector<std::uint32_t> negatives(2 * Ratings::kNegatives, 5);
  const std::uint64_t one = fingerprint(Ratings(9, {{0, 1}, {1, 2}}, {3, 4}, negatives));
  EXPECT_EQ(fingerprint(Ratings(9, {{0, 1}, {1, 2}}, {3, 4}, negatives)), one);
  EXPECT_NE(fingerprint(Ratings(8, {{0, 1}, {1, 2}}, {3, 4}, negatives)), one);
  EXPECT_NE(fingerprint(Ratings(9, {{0, 1}, {1, 3}}, {3, 4}, negatives)), one);
  EXPECT_NE(fingerprint(Ratings(9, {{0, 1}, {1, 2}}, {3, 5}, negatives)), one);
  negatives.back() = 6;
  EXPECT_NE(fingerprint(Ratings(9, {{0, 1}, {1, 2}}, {3, 4}, negatives)), one);
}

TEST(Fingerprint, TellsEveryTranscriptAndSample) {
  const auto of = [](const char* name) {
    return fingerprint(*open_speech(name, "", Split::train));
  };
  EXPECT_EQ(of("generated:size=8,seed=1"), of("generated:size=8,seed=1"));
  EXPECT_NE(of("generated:size=8,seed=1"), of("generated:size=8,seed=2"));
  const TemporaryFolder folder;
  write_set("an4", folder.path());
  const auto reopened = [&] {
    return fingerprint(*open_speech("an4", folder.path(), Split::train));
  };
  const std::uint64_t one = reopened();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.path().string().find("an4_clstk/abcd/an0-") == std::string::npos) continue;
    ByteString bytes = bytes_of(entry.path());
    bytes.back() ^= 1;
    write_file(entry.path(), bytes);
  }
  EXPECT_NE(reopened(), one);
}

}  // namespace
}  // namespace topknot::data

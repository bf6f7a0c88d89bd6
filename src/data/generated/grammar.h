// SPDX-License-Identifier: Apache-2.0
//
// A random language for the generated sets of text. Words belong to parts of speech, a sentence
// follows one of 32 patterns of these, and every text has a topic that prefers some words of
// each part. So a model can learn from the previous word, from the sentence, and from the
// previous sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"

namespace topknot::data {

class Grammar {
 public:
  /// The language of `seed`, with at least `words` words. The same on every machine.
  Grammar(std::uint64_t seed, std::size_t words);

  /// "kalo miru setona ." about `topic`, below topics(). Draws from `random`.
  std::string sentence(std::size_t topic, core::Random& random) const;
  std::size_t topics() const { return kTopics; }
  /// All words, the full stop last.
  const std::vector<std::string>& words() const { return words_; }

 private:
  static constexpr std::size_t kTopics = 16;
  static constexpr std::size_t kParts = 8;
  static constexpr std::size_t kPatterns = 32;

  std::vector<std::string> words_;
  std::vector<std::vector<std::size_t>> parts_;     // words of each part of speech
  std::vector<std::vector<std::size_t>> patterns_;  // sequences of parts of speech
};

}  // namespace topknot::data

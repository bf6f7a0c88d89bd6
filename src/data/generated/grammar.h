// SPDX-License-Identifier: Apache-2.0
//
// A random language: what the generated twins of text sets are written in. Words belong to
// parts of speech, sentences follow one of a few dozen patterns of these, and every text has
// a topic that prefers some words of each part. So there is something to learn from the word
// before, from the sentence, and from the sentence before.
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
  std::vector<std::vector<std::size_t>> patterns_;  // parts in their order
};

}  // namespace topknot::data

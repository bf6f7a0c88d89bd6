// SPDX-License-Identifier: Apache-2.0
#include "data/generated/grammar.h"

#include <algorithm>

namespace topknot::data {
namespace {

constexpr std::string_view kSyllables[] = {"ka", "lo", "mi", "ru", "se", "to",
                                           "na", "vi", "pe", "du", "ga", "fo",
                                           "hi", "ju", "be", "zo"};

/// The digits of `number` in base 16 as syllables, so that different numbers give different
/// words.
std::string word_of(std::size_t number) {
  std::string word;
  for (number += 16; number > 0; number /= 16) word += kSyllables[number % 16];
  return word;
}

}  // namespace

Grammar::Grammar(std::uint64_t seed, std::size_t words) : parts_(kParts) {
  core::Random random(seed);
  const std::size_t each = std::max<std::size_t>(kTopics, words / kParts + 1);
  for (std::size_t w = 0; w < each * kParts; ++w) {
    words_.push_back(word_of(w));
    parts_[w % kParts].push_back(w);
  }
  words_.emplace_back(".");
  for (std::vector<std::size_t>& part : parts_)
    for (std::size_t i = part.size(); i > 1; --i)
      std::swap(part[i - 1], part[random.below(i)]);
  for (std::size_t p = 0; p < kPatterns; ++p) {
    std::vector<std::size_t> pattern(3 + random.below(8));
    for (std::size_t& part : pattern) part = random.below(kParts);
    patterns_.push_back(std::move(pattern));
  }
}

std::string Grammar::sentence(std::size_t topic, core::Random& random) const {
  const std::vector<std::size_t>& pattern = patterns_[random.below(patterns_.size())];
  std::string text;
  for (const std::size_t part : pattern) {
    const std::vector<std::size_t>& words = parts_[part];
    // The cube of a uniform number prefers small ones; each topic starts at another word.
    const double u = random.uniform();
    const auto rank =
        static_cast<std::size_t>(u * u * u * static_cast<double>(words.size()));
    const std::size_t start = topic * words.size() / kTopics;
    text += words_[words[(start + rank) % words.size()]];
    text += ' ';
  }
  return text + '.';
}

}  // namespace topknot::data

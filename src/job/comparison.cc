// SPDX-License-Identifier: Apache-2.0
#include "job/comparison.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/hash.h"

namespace topknot::train {
namespace {

constexpr std::size_t kMostWords = std::size_t{1} << 22;  // of one rank: 16 MiB
constexpr std::size_t kMostSentences = 50;
constexpr std::size_t kMostSides = 8;      // in one sentence
constexpr std::size_t kLongestText = 200;  // of a value, in a sentence

/// Ranks whose fields are all equal, and these fields.
struct Group {
  std::vector<int> ranks;
  std::size_t words = 0;
  Fields fields;
  std::map<std::string, std::string> values = {};
};

/// `text` as it is printed: without control characters, and cut.
std::string shown(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7F') c = '?';
  if (text.size() > kLongestText) text.replace(kLongestText, std::string::npos, "...");
  return text;
}

/// Every name that a group has, in the order of their first appearance.
std::vector<std::string> names_of(const std::vector<Group>& groups) {
  std::vector<std::string> names;
  std::map<std::string, bool> seen;
  for (const Group& group : groups)
    for (const Field& field : group.fields)
      if (!std::exchange(seen[field.name], true)) names.push_back(field.name);
  return names;
}

Difference sides_of(const std::string& name, const std::vector<Group>& groups) {
  std::map<std::string, std::vector<int>> ranks_by_value;
  for (const Group& group : groups) {
    const auto found = group.values.find(name);
    std::vector<int>& ranks = ranks_by_value[found == group.values.end() ? "(none)"
                                             : found->second.empty()     ? "(empty)"
                                                                         : found->second];
    ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
  }
  Difference difference{name, {}};
  for (auto& [value, ranks] : ranks_by_value) {
    std::ranges::sort(ranks);
    difference.sides.push_back({value, std::move(ranks)});
  }
  std::ranges::sort(difference.sides, [](const auto& one, const auto& other) {
    if (one.ranks.size() != other.ranks.size())
      return one.ranks.size() < other.ranks.size();
    const bool has_0 = one.ranks[0] == 0 || other.ranks[0] == 0;
    return has_0 ? other.ranks[0] == 0 : one.ranks[0] < other.ranks[0];
  });
  return difference;
}

}  // namespace

Fields fields_of(const Job& job) {
  Fields all;
  for (const Key& key : keys())
    if (key.may_differ.empty())
      all.push_back({std::string(key.name), get(job, key.name)});
  return all;
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = ++last) {
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - first == 1) last = first;  // "4 and 5", not "4 to 5"
    runs.push_back(std::to_string(ranks[first]));
    if (last > first) runs.back() += " to " + std::to_string(ranks[last]);
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += (i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return text;
}

std::string Difference::str() const {
  std::string text;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (i >= kMostSides && i + 1 < sides.size()) continue;
    if (i > kMostSides) text += ", " + std::to_string(i - kMostSides) + " more differ";
    const Side& side = sides[i];
    text += (i == 0 ? "" : ", ") + name_ranks(side.ranks) +
            (side.ranks.size() == 1 ? " has " : " have ") +
            (i == 0 ? shown(field) + " = " : "") + shown(side.value);
  }
  return text;
}

std::vector<std::string> sentences_of(const std::vector<Difference>& differences) {
  std::vector<std::string> sentences;
  for (const Difference& one : differences) {
    if (sentences.size() == kMostSentences) break;
    sentences.push_back(one.str() + ".");
  }
  if (differences.size() > sentences.size())
    sentences.push_back("The ranks differ in " +
                        std::to_string(differences.size() - sentences.size()) +
                        " more fields.");
  return sentences;
}

StartedUnlikeError::StartedUnlikeError(const std::vector<Difference>& differences)
    : DisagreementError(differences.front().sides.front().ranks.front(),
                        differences.front().str() +
                            (differences.size() == 1
                                 ? "."
                                 : "; the ranks differ in " +
                                       std::to_string(differences.size()) + " fields.")),
      sentences_(sentences_of(differences)) {}

DriftError::DriftError(std::uint64_t step, std::uint64_t last_equal,
                       const std::vector<Difference>& differences)
    : Error("After " + std::to_string(step) + " steps " + differences.front().str() +
            "."),
      sentences_(sentences_of(differences)) {
  sentences_.insert(sentences_.begin(),
                    "After " + std::to_string(step) +
                        " steps the ranks no longer have the same; after " +
                        std::to_string(last_equal) +
                        " they had. A processor or its memory is faulty, or this is a "
                        "bug: go on from a "
                        "checkpoint of step " +
                        std::to_string(last_equal) + " or before.");
}

Comparison::Comparison(Transport& link, int channel) : control_(link, channel) {}

std::vector<Difference> Comparison::differences(const Fields& mine) {
  const std::vector<std::uint32_t> own = pack(mine);
  if (own.size() > kMostWords)
    throw ContractError(
        "there are too many fields to compare: " + std::to_string(own.size()) + " words");
  const std::vector<std::uint64_t> told = {core::hash(std::as_bytes(std::span(own))),
                                           own.size()};
  const auto all = control_.gather(told);

  std::map<std::vector<std::uint64_t>, std::size_t> group_of;
  std::vector<Group> groups;  // by their lowest ranks
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto [found, is_new] = group_of.try_emplace(all[rank], groups.size());
    if (is_new) groups.push_back({.ranks = {}, .words = all[rank][1], .fields = {}});
    groups[found->second].ranks.push_back(static_cast<int>(rank));
  }
  if (groups.size() == 1) return {};

  for (Group& group : groups) {
    const int speaker = group.ranks.front();
    if (group.words > kMostWords)
      throw LinkError(speaker,
                      name_ranks({speaker}) + " has too many fields to compare.");
    const auto bytes = control_.broadcast(speaker, std::as_bytes(std::span(own)),
                                          group.words * sizeof(std::uint32_t));
    std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
    std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint32_t));
    if (!unpack(words, group.fields))
      throw LinkError(speaker,
                      name_ranks({speaker}) + " sent fields that cannot be read.");
    for (const Field& field : group.fields) group.values[field.name] = field.value;
  }
  std::vector<Difference> found;
  for (const std::string& name : names_of(groups))
    if (Difference one = sides_of(name, groups); one.sides.size() > 1)
      found.push_back(std::move(one));
  return found;
}

void Comparison::require_equal(const Fields& mine) {
  if (const auto found = differences(mine); !found.empty())
    throw StartedUnlikeError(found);
}

std::vector<std::uint32_t> pack(const Fields& fields) {
  std::vector<std::uint32_t> words;
  for (const Field& field : fields)
    for (const std::string& text : {field.name, field.value}) {
      words.push_back(static_cast<std::uint32_t>(text.size()));
      const std::size_t at = words.size();
      words.resize(at + (text.size() + 3) / 4);
      std::memcpy(words.data() + at, text.data(), text.size());
    }
  return words;
}

bool unpack(std::span<const std::uint32_t> words, Fields& fields) {
  fields.clear();
  while (!words.empty()) {
    Field field;
    for (std::string* text : {&field.name, &field.value}) {
      if (words.empty()) return false;
      const std::size_t length = words[0];
      words = words.subspan(1);
      const std::size_t taken = (length + 3) / 4;
      if (taken > words.size()) return false;
      text->assign(reinterpret_cast<const char*>(words.data()), length);
      words = words.subspan(taken);
    }
    fields.push_back(std::move(field));
  }
  return true;
}

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "core/names.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace topknot::core {
namespace {

constexpr std::size_t kShortWord =
    3;  // letters; what is shorter shares no prefix or part
constexpr int kFar = 1000;

char plain(char letter) {
  return letter == '-'
             ? '_'
             : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

/// In small letters, with one spelling, and without the hyphens in front of an option.
std::string plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string text(name);
  for (char& letter : text) letter = plain(letter);
  return text;
}

/// Letters to replace, insert, remove or swap with their neighbours.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last.back();
}

std::vector<std::string_view> parts(std::string_view name) {
  std::vector<std::string_view> all;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find('_', start), name.size());
    if (end - start >= kShortWord) all.push_back(name.substr(start, end - start));
    start = end + 1;
  }
  return all;
}

bool share_a_part(std::string_view a, std::string_view b) {
  const auto of_b = parts(b);
  const auto of_a = parts(a);
  return std::any_of(of_a.begin(), of_a.end(), [&](std::string_view part) {
    return std::find(of_b.begin(), of_b.end(), part) != of_b.end();
  });
}

/// How unlikely it is that `wanted` was meant to be `name`; kFar: not at all.
int distance(const std::string& wanted, const std::string& name) {
  if (wanted.empty()) return kFar;
  const std::size_t most = wanted.size() <= kShortWord ? 1 : 2;
  const std::size_t away = edits(wanted, name);
  if (away <= most && away < wanted.size()) return static_cast<int>(away);
  const std::size_t shorter = std::min(wanted.size(), name.size());
  if (shorter >= kShortWord && wanted.compare(0, shorter, name, 0, shorter) == 0)
    return 3;
  return share_a_part(wanted, name) ? 4 : kFar;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return (x == '-' ? '_' : x) == (y == '-' ? '_' : y);
  });
}

std::string listed(const std::vector<std::string>& words, std::string_view last,
                   std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text.append(i == 0 ? "" : i + 1 == words.size() ? last : between).append(words[i]);
  return text;
}

std::vector<std::string> nearest(std::string_view wanted,
                                 const std::vector<std::string>& names) {
  std::vector<std::string> found;
  int best = kFar;
  for (const std::string& name : names) {
    const int away = distance(plain(wanted), plain(name));
    if (away < best) found.clear();
    best = std::min(best, away);
    if (away == best && best != kFar) found.push_back(name);
  }
  return found;
}

std::string suggestion(std::string_view wanted, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::vector<std::string> near = nearest(wanted, names);
  const std::vector<std::string>& said = near.empty() ? names : near;
  const std::string verb = said.size() == 1 ? " is " : " are ";
  return (near.empty() ? "; there" : "; nearest") + verb + listed(said);
}

}  // namespace topknot::core

// SPDX-License-Identifier: Apache-2.0
#include "topknot/params.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/names.h"
#include "core/text.h"
#include "topknot/error.h"

namespace topknot {
namespace {

constexpr std::size_t kMostNames = 12;  // a sentence does not list more than this

/// The nearest, of few names all that there are beside it.
std::string suggestion_of(std::string_view wanted,
                          const std::vector<std::string>& names) {
  const std::string said = core::suggestion(wanted, names);
  const bool all = core::nearest(wanted, names).empty() || names.size() > kMostNames;
  return all ? said : said + " (of " + core::listed(names, ", ") + ")";
}

template <typename Number>
Number parse_number(const std::string& text, std::string_view name, Number low,
                    Number high, const std::string& range) {
  Number value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || !(value >= low && value <= high))
    throw ConfigError(std::string(name) + "=" + text + " is not in " + range + ".");
  return value;
}

}  // namespace

Params Params::parse(std::string_view text) {
  Params params;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw ConfigError("Parameters are written key=value,key=value; \"" +
                        std::string(item) + "\" is not.");
    const auto [where, fresh] =
        params.given_.emplace(item.substr(0, equals), item.substr(equals + 1));
    if (!fresh) throw ConfigError("The parameter " + where->first + " is given twice.");
  }
  return params;
}

void Params::give(std::string_view name, std::string_view value) {
  given_.emplace(name, value);
}

const std::string* Params::given(std::string_view name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? nullptr : &found->second;
}

const std::string* Params::find(std::string_view name, std::string fallback,
                                std::string range, std::string_view meaning) {
  declared_.push_back(
      {std::string(name), std::move(fallback), std::move(range), std::string(meaning)});
  return given(name);
}

std::int64_t Params::integer(std::string_view name, std::int64_t fallback,
                             std::int64_t low, std::int64_t high,
                             std::string_view meaning) {
  const std::string range = std::to_string(low) + ".." + std::to_string(high);
  const std::string* const given = find(name, std::to_string(fallback), range, meaning);
  return given == nullptr ? fallback : parse_number(*given, name, low, high, range);
}

double Params::number(std::string_view name, double fallback, double low, double high,
                      std::string_view meaning) {
  const std::string range = core::shortest(low) + ".." + core::shortest(high);
  const std::string* const given = find(name, core::shortest(fallback), range, meaning);
  return given == nullptr ? fallback : parse_number(*given, name, low, high, range);
}

bool Params::flag(std::string_view name, bool fallback, std::string_view meaning) {
  const std::string* const given = find(name, fallback ? "1" : "0", "0|1", meaning);
  if (given == nullptr) return fallback;
  if (*given == "0" || *given == "1") return *given == "1";
  throw ConfigError(std::string(name) + "=" + *given + " is neither 0 nor 1.");
}

std::string Params::choice(std::string_view name,
                           std::initializer_list<std::string_view> choices,
                           std::string_view meaning) {
  const std::vector<std::string> names(choices.begin(), choices.end());
  const std::string* const given =
      find(name, names.front(), core::listed(names, "|", "|"), meaning);
  if (given == nullptr) return names.front();
  if (std::find(names.begin(), names.end(), *given) != names.end()) return *given;
  throw ConfigError("There is no " + std::string(name) + "=" + *given +
                    suggestion_of(*given, names) + ".");
}

std::string Params::text(std::string_view name, std::string_view fallback,
                         std::string_view meaning) {
  const std::string* const given = find(name, std::string(fallback), "any text", meaning);
  return given == nullptr ? std::string(fallback) : *given;
}

void Params::refuse_unknown(std::string_view owner) const {
  std::vector<std::string> names;
  for (const Declaration& one : declared_) names.push_back(one.name);
  for (const auto& [name, value] : given_) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string sentence = std::string(owner) + " has no parameter " + name;
    if (names.empty()) throw ConfigError(sentence + "; it has none at all.");
    throw ConfigError(sentence + suggestion_of(name, names) + ".");
  }
}

std::string Params::str() const {
  std::string all;
  for (const auto& [name, value] : given_) {
    if (!all.empty()) all += ',';
    all += name;
    all += '=';
    all += value;
  }
  return all;
}

Spec Spec::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == 0 || text.empty())
    throw ConfigError("A name is missing in \"" + std::string(text) +
                      "\"; write it as name or name:key=value.");
  if (colon == std::string_view::npos) return {std::string(text), {}};
  return {std::string(text.substr(0, colon)), Params::parse(text.substr(colon + 1))};
}

std::string Spec::str() const {
  const std::string given = params.str();
  return given.empty() ? name : name + ":" + given;
}

}  // namespace topknot

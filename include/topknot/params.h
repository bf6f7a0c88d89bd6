// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace topknot {

/// The parameters of one algorithm, "tau=64,values=bf16". An algorithm reads each by name
/// with its default, range and meaning; the reading is at the same time the declaration
/// that `topknot list` and the documentation show, so the two cannot differ.
class Params {
 public:
  struct Declaration {
    std::string name;
    std::string fallback;  ///< the default
    std::string range;     ///< "1..4096", "own|native", "any text"
    std::string meaning;
  };

  Params() = default;
  /// Throws ConfigError when `text` is not a list of key=value.
  static Params parse(std::string_view text);

  std::int64_t integer(std::string_view name, std::int64_t fallback, std::int64_t low,
                       std::int64_t high, std::string_view meaning);
  double number(std::string_view name, double fallback, double low, double high,
                std::string_view meaning);
  bool flag(std::string_view name, bool fallback, std::string_view meaning);
  /// One of `choices`; the first is the default.
  std::string choice(std::string_view name,
                     std::initializer_list<std::string_view> choices,
                     std::string_view meaning);
  std::string text(std::string_view name, std::string_view fallback,
                   std::string_view meaning);

  /// Gives `name` this value, unless it was given one.
  void give(std::string_view name, std::string_view value);
  /// What was given for `name`; null when nothing was.
  const std::string* given(std::string_view name) const;

  /// What has been read so far, in order.
  const std::vector<Declaration>& declared() const noexcept { return declared_; }
  /// Throws ConfigError when a parameter was given that nobody has read; `owner` is whose
  /// parameters these are.
  void refuse_unknown(std::string_view owner) const;
  /// "key=value,...", keys in alphabetical order; only what was given.
  std::string str() const;

 private:
  const std::string* find(std::string_view name, std::string fallback, std::string range,
                          std::string_view meaning);

  std::map<std::string, std::string, std::less<>> given_;
  std::vector<Declaration> declared_;
};

/// A name with parameters, "oktopk:tau=64".
struct Spec {
  std::string name;
  Params params;

  static Spec parse(std::string_view text);
  std::string str() const;
};

}  // namespace topknot

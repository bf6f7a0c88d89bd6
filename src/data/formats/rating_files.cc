// SPDX-License-Identifier: Apache-2.0
#include "data/formats/rating_files.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "data/file.h"
#include "data/text.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 32;
constexpr std::uint32_t kMostIds = 1U << 28;

/// Parses a line from its front.
class LineReader {
 public:
  LineReader(const fs::path& file, std::size_t number, std::string_view text)
      : file_(file), number_(number), text_(text) {}

  bool done() const { return text_.empty(); }

  std::int64_t integer() {
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc{})
      refuse("has " + in_quotes(text_) + " where a number is expected");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

  std::uint32_t id(const char* what, std::uint32_t bound = kMostIds) {
    const std::int64_t value = integer();
    if (value < 0 || value >= bound)
      refuse("has the unknown " + std::string(what) + " " + std::to_string(value) + "; " +
             std::string(what) + "s are below " + std::to_string(bound));
    return static_cast<std::uint32_t>(value);
  }

  void skip(std::string_view word) {
    if (!text_.starts_with(word))
      refuse("has " + in_quotes(text_) + " where " +
             (word == "\t" ? "a tab" : in_quotes(word)) + " is expected");
    text_.remove_prefix(word.size());
  }

  /// Skips everything before `word`.
  void skip_to(std::string_view word) {
    const std::size_t at = text_.find(word);
    if (at == std::string_view::npos) refuse("lacks a " + in_quotes(word));
    text_.remove_prefix(at);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(about(file_) + "line " + std::to_string(number_) + " " + what + ".");
  }

 private:
  const fs::path& file_;
  std::size_t number_;
  std::string_view text_;
};

template <typename Use>
void for_each_record(const fs::path& file, Use use) {
  const std::string text = read_text(file, kMostBytes);
  if (!text.empty() && text.back() != '\n')
    throw DataError(about(file) + "does not end with a newline: it was cut short.");
  std::size_t number = 0;
  for_each_line(text,
                [&](std::string_view line) { use(LineReader(file, ++number, line)); });
  if (number == 0) throw DataError(about(file) + "is empty.");
}

/// The first number of each line; empty where the file does not exist.
std::unordered_set<std::uint32_t> known_ids(const fs::path& file, bool headed) {
  std::unordered_set<std::uint32_t> ids;
  std::error_code error;
  if (!fs::exists(file, error)) return ids;
  for_each_record(file, [&](LineReader line) {
    if (!std::exchange(headed, false)) ids.insert(line.id("item"));
  });
  return ids;
}

}  // namespace

Ratings read_ncf_files(const fs::path& folder, const std::string& name) {
  const fs::path train_file = folder / (name + ".train.rating");
  const fs::path test_file = folder / (name + ".test.rating");
  const fs::path negative_file = folder / (name + ".test.negative");
  const std::unordered_set<std::uint32_t> known =
      known_ids(folder / (name + ".item_to_movieid.txt"), false);
  const std::uint32_t bound =
      known.empty() ? kMostIds : static_cast<std::uint32_t>(known.size());
  std::uint32_t items = known.empty() ? 0 : bound;

  std::vector<std::uint32_t> held_out;
  for_each_record(test_file, [&](LineReader line) {
    if (line.id("user") != held_out.size())
      line.refuse("is not of user " + std::to_string(held_out.size()) +
                  "; there is one line for each, in order");
    line.skip("\t");
    held_out.push_back(line.id("item", bound));
    items = std::max(items, held_out.back() + 1);
  });
  const auto users = static_cast<std::uint32_t>(held_out.size());
  std::vector<Ratings::Pair> train;
  for_each_record(train_file, [&](LineReader line) {
    Ratings::Pair pair{};
    pair.user = line.id("user", users);
    line.skip("\t");
    pair.item = line.id("item", bound);
    line.skip("\t");
    train.push_back(pair);
    items = std::max(items, pair.item + 1);
  });
  std::vector<std::uint32_t> negatives;
  std::uint32_t user = 0;
  for_each_record(negative_file, [&](LineReader line) {
    line.skip("(");
    if (line.id("user", users) != user)
      line.refuse("is not of user " + std::to_string(user));
    line.skip(",");
    if (line.id("item", items) != held_out[user])
      line.refuse("has another item than " + test_file.filename().string());
    line.skip(")");
    for (std::size_t n = 0; n < Ratings::kNegatives; ++n) {
      line.skip("\t");
      negatives.push_back(line.id("item", items));
    }
    if (!line.done()) line.refuse("has text after 99 negatives");
    ++user;
  });
  if (user != users)
    throw DataError(about(negative_file) + "has " + std::to_string(user) + " lines for " +
                    std::to_string(users) + " users.");
  return {items, std::move(train), std::move(held_out), std::move(negatives)};
}

std::vector<RawRating> read_raw_ratings(const fs::path& file) {
  const bool csv = file.extension() == ".csv";
  const std::string_view between = csv ? "," : "::";
  const std::unordered_set<std::uint32_t> known =
      known_ids(file.parent_path() / (csv ? "movies.csv" : "movies.dat"), csv);
  std::vector<RawRating> ratings;
  bool head = csv;
  for_each_record(file, [&](LineReader line) {
    if (std::exchange(head, false)) return line.skip("userId,movieId,rating,timestamp");
    RawRating one{};
    one.user = line.id("user");
    line.skip(between);
    one.item = line.id("item");
    if (!known.empty() && !known.contains(one.item))
      line.refuse("rates item " + std::to_string(one.item) + ", which " +
                  (csv ? "movies.csv" : "movies.dat") + " has not");
    line.skip(between);
    line.skip_to(between);
    line.skip(between);
    one.time = line.integer();
    if (!line.done()) line.refuse("has text after its time");
    ratings.push_back(one);
  });
  if (ratings.empty()) throw DataError(about(file) + "has no rating.");
  return ratings;
}

Ratings read_movielens(const fs::path& folder, const std::string& name,
                       const std::string& raw_file) {
  std::error_code error;
  if (fs::exists(folder / (name + ".train.rating"), error))
    return read_ncf_files(folder, name);
  const fs::path file = folder / raw_file;
  return leave_one_out(read_raw_ratings(file), kNegativesSeed, file);
}

}  // namespace topknot::data

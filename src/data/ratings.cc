// SPDX-License-Identifier: Apache-2.0
#include "data/ratings.h"

#include <algorithm>
#include <unordered_map>

#include "data/dataset.h"
#include "data/generated/generated.h"

namespace topknot::data {
namespace {

std::uint32_t number_of(std::unordered_map<std::uint32_t, std::uint32_t>& numbers,
                        std::uint32_t name) {
  return numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size()))
      .first->second;
}

/// Appends kNegatives different items that are not in `rated`, which is sorted.
void draw_negatives(std::span<const std::uint32_t> rated, std::uint32_t items,
                    core::Random random, std::vector<std::uint32_t>& negatives) {
  const auto first = negatives.end() - negatives.begin();
  while (negatives.end() - negatives.begin() - first <
         static_cast<std::ptrdiff_t>(Ratings::kNegatives)) {
    const auto item = static_cast<std::uint32_t>(random.below(items));
    if (!std::binary_search(rated.begin(), rated.end(), item) &&
        std::find(negatives.begin() + first, negatives.end(), item) == negatives.end())
      negatives.push_back(item);
  }
}

}  // namespace

Ratings::Ratings(std::uint32_t items, std::vector<Pair> train,
                 std::vector<std::uint32_t> held_out,
                 std::vector<std::uint32_t> negatives)
    : items_(items),
      train_(std::move(train)),
      held_out_(std::move(held_out)),
      negatives_(std::move(negatives)),
      first_(held_out_.size() + 1) {
  const auto known = [this](std::uint32_t item) { return item < items_; };
  if (negatives_.size() != held_out_.size() * kNegatives ||
      !std::all_of(held_out_.begin(), held_out_.end(), known) ||
      !std::all_of(negatives_.begin(), negatives_.end(), known))
    throw ContractError("Ratings need 99 negatives for each user, and known items.");
  for (const Pair& pair : train_) {
    if (pair.user >= users() || pair.item >= items_)
      throw ContractError("A rating has user " + std::to_string(pair.user) +
                          " and item " + std::to_string(pair.item) + "; there are " +
                          std::to_string(users()) + " users and " +
                          std::to_string(items_) + " items.");
    ++first_[pair.user + 1];
  }
  for (std::size_t u = 0; u < held_out_.size(); ++u) first_[u + 1] += first_[u];
  sorted_.resize(train_.size());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (const Pair& pair : train_) sorted_[next[pair.user]++] = pair.item;
  for (std::size_t u = 0; u < held_out_.size(); ++u) {
    const auto begin = sorted_.begin() + static_cast<std::ptrdiff_t>(first_[u]);
    const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(first_[u + 1]);
    std::sort(begin, end);
  }
}

bool Ratings::rated(std::uint32_t user, std::uint32_t item) const {
  const auto begin = sorted_.begin() + static_cast<std::ptrdiff_t>(first_.at(user));
  const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(first_.at(user + 1));
  return std::binary_search(begin, end, item);
}

std::uint32_t Ratings::draw_negative(std::uint32_t user, core::Random& random) const {
  const std::size_t liked = first_.at(user + 1) - first_.at(user);
  if (liked >= items_)
    throw ContractError("User " + std::to_string(user) + " rated every item.");
  for (;;) {
    const auto item = static_cast<std::uint32_t>(random.below(items_));
    if (!rated(user, item)) return item;
  }
}

Ratings leave_one_out(std::span<const RawRating> raw, std::uint64_t seed,
                      const std::filesystem::path& source) {
  std::unordered_map<std::uint32_t, std::uint32_t> user_numbers, item_numbers;
  struct Rating {
    std::uint32_t item;
    std::int64_t time;
  };
  std::vector<std::vector<Rating>> by_user;
  std::vector<std::uint32_t> user_names;
  for (const RawRating& one : raw) {
    const std::uint32_t user = number_of(user_numbers, one.user);
    if (user == by_user.size()) {
      by_user.emplace_back();
      user_names.push_back(one.user);
    }
    by_user[user].push_back({number_of(item_numbers, one.item), one.time});
  }
  const auto items = static_cast<std::uint32_t>(item_numbers.size());
  std::vector<Ratings::Pair> train;
  train.reserve(raw.size());
  std::vector<std::uint32_t> held_out, negatives;
  for (std::uint32_t u = 0; u < by_user.size(); ++u) {
    const std::vector<Rating>& own = by_user[u];
    const std::string who = "user " + std::to_string(user_names[u]);
    if (own.size() < 2)
      throw DataError(about(source) + who +
                      " has one rating; it takes two to hold one out.");
    std::vector<std::uint32_t> rated;
    for (const Rating& one : own) rated.push_back(one.item);
    std::sort(rated.begin(), rated.end());
    if (std::adjacent_find(rated.begin(), rated.end()) != rated.end())
      throw DataError(about(source) + who + " rated the same item twice.");
    if (items - rated.size() < Ratings::kNegatives)
      throw DataError(about(source) + who + " left only " +
                      std::to_string(items - rated.size()) + " of " +
                      std::to_string(items) + " items unrated; ranking needs 99.");
    std::size_t last = 0;
    for (std::size_t i = 1; i < own.size(); ++i)
      if (own[i].time >= own[last].time) last = i;
    for (std::size_t i = 0; i < own.size(); ++i)
      if (i != last) train.push_back({u, own[i].item});
    held_out.push_back(own[last].item);
    draw_negatives(rated, items, core::Random(core::random_bits(seed, u)), negatives);
  }
  return {items, std::move(train), std::move(held_out), std::move(negatives)};
}

Ratings open_ratings(std::string_view name, const std::filesystem::path& folder) {
  Spec spec = Spec::parse(name);
  if (spec.name == "generated") {
    const std::vector<RawRating> raw = make_ratings(spec.params);
    spec.params.refuse_unknown("generated ratings");
    return leave_one_out(raw, kNegativesSeed, "generated");
  }
  const Dataset& set = find_dataset_of<RatingsReader>(spec.name, "There are no ratings");
  spec.params.refuse_unknown(spec.name);
  return std::get<RatingsReader>(set.reader).open(find_folder(set, folder));
}

}  // namespace topknot::data

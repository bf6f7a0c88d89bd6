// SPDX-License-Identifier: Apache-2.0
//
// Ratings: pairs of user and item, with one item of each user held out for testing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/random.h"

namespace topknot::data {

/// Ratings as the NCF paper uses them (He et al., WWW 2017): each user's last item is held out
/// and ranked among kNegatives items that the user did not rate.
class Ratings {
 public:
  static constexpr std::size_t kNegatives = 99;

  struct Pair {
    std::uint32_t user;
    std::uint32_t item;
    bool operator==(const Pair&) const = default;
  };

  /// `train` has users below held_out.size() and items below `items`; `negatives` are
  /// kNegatives for each user, one user after another. Throws ContractError otherwise.
  Ratings(std::uint32_t items, std::vector<Pair> train,
          std::vector<std::uint32_t> held_out, std::vector<std::uint32_t> negatives);

  std::uint32_t users() const { return static_cast<std::uint32_t>(held_out_.size()); }
  std::uint32_t items() const { return items_; }
  std::span<const Pair> train() const { return train_; }
  std::uint32_t held_out(std::uint32_t user) const { return held_out_.at(user); }
  std::span<const std::uint32_t> negatives(std::uint32_t user) const {
    return std::span(negatives_).subspan(std::size_t{user} * kNegatives, kNegatives);
  }

  /// Whether the training ratings have the pair.
  bool rated(std::uint32_t user, std::uint32_t item) const;
  /// A random item that the user did not rate, as a negative for training.
  std::uint32_t draw_negative(std::uint32_t user, core::Random& random) const;

 private:
  std::uint32_t items_;
  std::vector<Pair> train_;
  std::vector<std::uint32_t> held_out_;
  std::vector<std::uint32_t> negatives_;
  std::vector<std::size_t> first_;     // index in sorted_ of each user's first item
  std::vector<std::uint32_t> sorted_;  // items by user, ascending
};

/// A rating as the file has it, with the file's own numbers.
struct RawRating {
  std::uint32_t user;
  std::uint32_t item;
  std::int64_t time;
};

/// Seeds the negatives of raw ratings, so that all runs rank the same items.
constexpr std::uint64_t kNegativesSeed = 1;

/// Numbers users and items from 0 in order of appearance, holds out each user's latest rating
/// (of equal times the last), and draws negatives from `seed`. Throws DataError that names
/// `source` where a user has fewer than two ratings or rated an item twice.
Ratings leave_one_out(std::span<const RawRating> raw, std::uint64_t seed,
                      const std::filesystem::path& source);

/// Opens a data set that has a RatingsReader, such as "ml-1m", or
/// "generated:users=1000,items=500,each=20,seed=1": ratings from latent factors. Throws
/// ConfigError at another name, DataError where a file is missing or broken or has an unknown
/// user or item.
Ratings open_ratings(std::string_view name, const std::filesystem::path& folder);

}  // namespace topknot::data

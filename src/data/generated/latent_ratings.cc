// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "data/exact.h"
#include "data/generated/generated.h"

namespace topknot::data {
namespace {

constexpr std::size_t kTastes = 8;
constexpr std::size_t kChoice = 6;  // items considered for each that is rated

using Taste = std::array<float, kTastes>;

std::vector<Taste> draw_tastes(std::size_t count, core::Random& random) {
  std::vector<Taste> tastes(count);
  for (Taste& taste : tastes)
    for (float& part : taste) part = bell(random);
  return tastes;
}

}  // namespace

std::vector<RawRating> make_ratings(Params& params) {
  const auto users =
      static_cast<std::uint32_t>(params.integer("users", 1000, 1, 10'000'000, "users"));
  const auto items =
      static_cast<std::uint32_t>(params.integer("items", 500, 400, 10'000'000, "items"));
  const auto each =
      static_cast<std::size_t>(params.integer("each", 20, 2, 50, "ratings of each user"));
  core::Random random(static_cast<std::uint64_t>(
      params.integer("seed", 1, 0, INT64_MAX, "what is drawn from")));
  const std::vector<Taste> user_tastes = draw_tastes(users, random);
  const std::vector<Taste> item_tastes = draw_tastes(items, random);
  std::vector<float> fame(items);
  for (float& one : fame) one = bell(random);

  std::vector<RawRating> ratings;
  std::vector<std::pair<float, std::uint32_t>> seen;
  for (std::uint32_t u = 0; u < users; ++u) {
    seen.clear();
    while (seen.size() < std::min<std::size_t>(kChoice * each, items)) {
      const auto item = static_cast<std::uint32_t>(random.below(items));
      if (std::any_of(seen.begin(), seen.end(),
                      [item](const auto& one) { return one.second == item; }))
        continue;
      float pleasure = fame[item] + 0.5F * bell(random);
      for (std::size_t t = 0; t < kTastes; ++t)
        pleasure += user_tastes[u][t] * item_tastes[item][t];
      seen.emplace_back(pleasure, item);
    }
    std::sort(seen.begin(), seen.end(), std::greater<>());
    // In random order, so that the item that is held out is not always the best.
    for (std::size_t i = 0; i < each; ++i)
      ratings.push_back(
          {u, seen[i].second, static_cast<std::int64_t>(random.bits() >> 32)});
  }
  return ratings;
}

}  // namespace topknot::data

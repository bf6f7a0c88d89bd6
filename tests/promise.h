// SPDX-License-Identifier: Apache-2.0
//
// How much a step must agree on at least. The law alone is kept by a collective that
// agrees on nothing and keeps everything in its residuals; it breaks these bounds.
//
// Count. A coordinate at which no rank's residual + gradient is zero is one that any
// selection can find. A step settles as many of them as are wanted: k, or all there are.
//
// Mass. Where the ranks never differ in sign nothing cancels, and the sum must have the
// mass of the k largest of m, m[i] being the least magnitude of residual + gradient of
// any rank at i. For
//   - whoever adds up selections of k and keeps the k largest of the sum, or all of it:
//     every rank's own selection has that mass, and the others' only add to it;
//   - whoever merges on the way (gtopk): what is kept of a and b has the mass of either;
//   - whoever agrees on positions: the ranks that judge see at least m.
//
// Both hold for every algorithm that is listed, unless a line below says why it promises
// less. They are for the compressor that the collective has by default, or topk.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/catalog.h"

namespace topknot::testing {

/// One step, as all ranks see it.
struct Agreed {
  std::size_t k = 0;
  int step = 0;
  std::vector<std::vector<float>> folded;  // by rank: residual before + gradient
  std::vector<bool> settled;  // in the sum, or settled by some rank: sums may cancel
  std::vector<float> sum;
};

/// What the bounds depend on.
struct Wanted {
  std::size_t k;  // at most n
  std::size_t n;
  std::size_t common;  // coordinates at which no rank has a zero
  std::size_t ranks;
  int step;

  std::size_t least() const { return std::min(k, common); }
};

struct Promise {
  std::string_view collective;
  std::size_t (*count)(const Wanted&);
  double (*share)(const Wanted&);  // of the mass
};

namespace promise {

inline std::size_t all(const Wanted& wanted) { return wanted.least(); }
inline double whole(const Wanted&) { return 1; }
inline std::size_t nothing(const Wanted&) { return 0; }
inline double none(const Wanted&) { return 0; }

/// Each of P parts has a quota of k/P: what lies in one part has no more.
inline std::size_t all_of_a_part(const Wanted& wanted) {
  return (wanted.least() + wanted.ranks - 1) / wanted.ranks;
}
inline double of_a_part(const Wanted& wanted) {
  return 1 / static_cast<double>(wanted.ranks);
}

/// The quotas add up to k, and a zero uses up its place in one.
inline std::size_t all_but_zeros(const Wanted& wanted) {
  const std::size_t zeros = wanted.n - wanted.common;
  return wanted.k - std::min(wanted.k, zeros);
}
/// The leader's norms say where, and another rank selects there, which may have zeros.
inline double of_a_part_without_zeros(const Wanted& wanted) {
  return wanted.common == wanted.n ? of_a_part(wanted) : 0;
}

/// The first three steps find their thresholds exactly. On the others half of k is
/// selected at least, with half of the mass; of that at least half is chosen, or a third
/// where the owners cut what they have to k.
inline std::size_t half_when_reused(const Wanted& wanted) {
  return wanted.step < 3 ? wanted.least() : (wanted.least() + 1) / 2;
}
inline double sixth_when_reused(const Wanted& wanted) {
  return wanted.step < 3 ? 1 : 1.0 / 6;
}

}  // namespace promise

inline constexpr Promise kStrict = {"", promise::all, promise::whole};
inline constexpr Promise kNone = {"", promise::nothing, promise::none};
inline constexpr Promise kLess[] = {
    {"spardl", promise::all_of_a_part, promise::of_a_part},
    {"hierarchical", promise::all, promise::of_a_part},
    {"deft", promise::all_but_zeros, promise::of_a_part_without_zeros},
    {"oktopk", promise::half_when_reused, promise::sixth_when_reused},
};

/// What `collective`, selecting by `compressor`, promises.
inline Promise promise_of(const Spec& collective, const Spec& compressor) {
  if (compressor.name != "topk" && compressor.name != default_compressor(collective.name))
    return kNone;
  const std::string spec = collective.str();
  const auto has = [&](const char* option) {
    return spec.find(option) != std::string::npos;
  };
  // Published thresholds may be anywhere, and another inner collective may be any.
  if (has("faithful=1") || has("published") || has("inner=") || has("survive="))
    return kNone;
  const auto* less = std::ranges::find(kLess, collective.name, &Promise::collective);
  Promise found = less == std::end(kLess) ? kStrict : *less;
  if (has("values=")) found.share = promise::none;  // rounding has no bound here
  return found;
}

/// The sum of the `k` largest.
inline double mass_of_largest(std::vector<double> magnitude, std::size_t k) {
  const auto middle = magnitude.begin() + static_cast<std::ptrdiff_t>(k);
  std::partial_sort(magnitude.begin(), middle, magnitude.end(), std::greater<>());
  return std::accumulate(magnitude.begin(), middle, 0.0);
}

/// What is missing of what was promised; nothing if it was kept.
inline std::optional<std::string> shortfall(const Promise& promised,
                                            const Agreed& agreed) {
  const std::size_t n = agreed.sum.size();
  Wanted wanted{std::min(agreed.k, n), n, 0, agreed.folded.size(), agreed.step};
  std::vector<double> least(n);
  double mass = 0;
  bool differ = false;
  for (std::size_t i = 0; i < n; ++i) {
    least[i] = std::numeric_limits<double>::infinity();
    float highest = 0;
    float lowest = 0;
    for (const std::vector<float>& one : agreed.folded) {
      least[i] = std::min(least[i], std::abs(static_cast<double>(one[i])));
      highest = std::max(highest, one[i]);
      lowest = std::min(lowest, one[i]);
    }
    differ = differ || (highest > 0 && lowest < 0);
    wanted.common += least[i] > 0 ? 1 : 0;
    mass += std::abs(static_cast<double>(agreed.sum[i]));
  }
  const auto settled = static_cast<std::size_t>(
      std::count(agreed.settled.begin(), agreed.settled.end(), true));
  const std::size_t count = promised.count(wanted);
  if (settled < count)
    return "agreed on " + std::to_string(settled) + " coordinates, not on the " +
           std::to_string(count) + " that are promised";
  const double share = promised.share(wanted) * mass_of_largest(least, wanted.k);
  if (!differ && mass < share * (1 - 0x1p-20))
    return "agreed on a mass of " + std::to_string(mass) + ", not on the " +
           std::to_string(share) + " that are promised";
  return std::nullopt;
}

}  // namespace topknot::testing

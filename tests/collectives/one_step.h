// SPDX-License-Identifier: Apache-2.0
//
// Steps of a collective between threads, with what every rank has in the end and sent on
// the way.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "copy_of.h"
#include "core/random.h"
#include "core/wire/wire.h"
#include "ranks.h"
#include "topknot/catalog.h"

namespace topknot::testing {

/// What one rank has after a step.
struct Outcome {
  std::vector<float> residual;
  std::vector<float> sum;
  std::vector<std::uint32_t> index;
  std::vector<std::uint32_t> settled;
  std::size_t count = 0;
  bool finite = true;
  Traffic traffic;
};

/// The words that were sent, headers apart; to `receiver` alone when it is given.
inline std::uint64_t words(const Traffic& traffic, int receiver = -1) {
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
  for (std::size_t to = 0; to < traffic.bytes_to.size(); ++to) {
    if (receiver >= 0 && to != static_cast<std::size_t>(receiver)) continue;
    bytes += traffic.bytes_to[to];
    messages += traffic.messages_to[to];
  }
  return (bytes - messages * core::kHeaderBytes) / 4;
}

inline std::uint64_t busiest(const std::vector<Outcome>& outcomes) {
  std::uint64_t most = 0;
  for (const Outcome& one : outcomes) most = std::max(most, words(one.traffic));
  return most;
}

using Gradients = std::function<std::vector<float>(int rank, int step)>;

/// The last of `steps` steps, by rank. All have exact top-k.
inline std::vector<Outcome> reduce(int ranks, const std::string& collective,
                                   std::size_t n, std::size_t k,
                                   const Gradients& gradient, int steps = 1) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  run(ranks, [&](Transport& link) {
    Outcome& mine = outcomes[static_cast<std::size_t>(link.rank())];
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor({"topk", {}}, layout);
    auto traffic = std::make_shared<Traffic>();
    const auto metered = make_metered(link.channel(0), traffic);
    const auto made =
        make_collective(Spec::parse(collective), *metered, *compressor, layout);
    mine.residual.assign(n, 0.0F);
    for (int step = 0; step < steps; ++step) {
      *traffic = {};
      mine.sum.assign(n, 0.0F);
      const Reduced reduced =
          made->reduce(mine.residual, copy_of(gradient(link.rank(), step)), k, mine.sum);
      mine.index.assign(reduced.index.begin(), reduced.index.end());
      mine.settled.assign(reduced.settled.begin(), reduced.settled.end());
      mine.count = reduced.count;
      mine.finite = reduced.finite;
    }
    mine.traffic = *traffic;
  });
  return outcomes;
}

inline std::vector<Outcome> reduce(const std::string& collective, std::size_t k,
                                   const std::vector<std::vector<float>>& gradients) {
  return reduce(static_cast<int>(gradients.size()), collective, gradients[0].size(), k,
                [&](int rank, int) { return gradients[static_cast<std::size_t>(rank)]; });
}

/// What topk selects of `x`, found by sorting: `x` with all else zero.
inline std::vector<float> largest(const std::vector<float>& x, std::size_t k) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(x[a]) > std::abs(x[b]);
  });
  std::vector<float> kept(x.size());
  for (std::size_t i = 0; i < std::min(k, x.size()); ++i) kept[order[i]] = x[order[i]];
  return kept;
}

inline std::vector<float> added(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// Integers without a zero, half of them common to all ranks.
inline std::vector<float> correlated(std::size_t n, int rank, int step) {
  core::Random own(static_cast<std::uint64_t>(1000 * step + rank + 1));
  core::Random common(static_cast<std::uint64_t>(1000 * step));
  std::vector<float> x(n);
  for (float& v : x)
    v = std::trunc(64 * own.laplace()) + std::trunc(64 * common.laplace()) + 0.5F;
  return x;
}

inline std::vector<float> uncorrelated(std::size_t n, int rank, int step) {
  core::Random own(static_cast<std::uint64_t>(1000 * step + rank + 1));
  std::vector<float> x(n);
  for (float& v : x) v = std::trunc(64 * own.laplace()) + 0.5F;
  return x;
}

/// All that is large is in the first sixteenth of the vector.
inline std::vector<float> skewed(std::size_t n, int rank, int step) {
  std::vector<float> x = uncorrelated(n, rank, step);
  for (std::size_t i = 0; i < n / 16; ++i) x[i] *= 1024;
  return x;
}

inline constexpr std::vector<float> (*kGradients[])(std::size_t, int, int) = {
    correlated, uncorrelated, skewed};

}  // namespace topknot::testing

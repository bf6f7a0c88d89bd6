// SPDX-License-Identifier: Apache-2.0
//
// The law, as a check that any collective over any transport can be held to: nothing is
// lost, and all ranks agree bit for bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "topknot/catalog.h"

namespace topknot::testing {

enum class Data { integers, random, zeros, equal, one_huge };
inline constexpr Data kAllData[] = {Data::integers, Data::random, Data::zeros,
                                    Data::equal, Data::one_huge};

struct Case {
  std::string collective;
  std::string compressor = "topk";
  std::size_t n = 0;
  std::size_t k = 0;
  Data data = Data::integers;
  int steps = 3;
  bool in_place = false;  // the sum goes into the memory of the gradient

  std::string str(int ranks) const {
    static constexpr const char* kNames[] = {"integers", "random", "zeros", "equal",
                                             "one huge"};
    return collective + " with " + compressor + ", P=" + std::to_string(ranks) +
           " n=" + std::to_string(n) + " k=" + std::to_string(k) + " " +
           kNames[static_cast<int>(data)] + (in_place ? ", in place" : "");
  }
};

/// The gradient of one rank on one step: the same whoever asks. Step -1 is the first
/// debt.
inline std::vector<float> gradient(const Case& c, int rank, int step) {
  std::vector<float> x(c.n);
  const auto seed = static_cast<std::uint64_t>((step + 1) * 1000 + rank);
  core::Random own(seed);
  core::Random common(static_cast<std::uint64_t>(step + 1) + 77777);
  for (std::size_t i = 0; i < c.n; ++i) {
    switch (c.data) {
      case Data::integers:  // half common to all ranks, so that selections overlap
        x[i] = std::trunc(8 * own.laplace()) + std::trunc(8 * common.laplace());
        break;
      case Data::random:
        x[i] = own.laplace() + common.laplace();
        break;
      case Data::zeros:
        break;
      case Data::equal:
        x[i] = 3;
        break;
      case Data::one_huge:
        x[i] = i == c.n / 2 ? 65536.0F : 1.0F;
        break;
    }
  }
  return x;
}

/// Hands everyone's `mine` to rank 0; the others get nothing back.
inline std::vector<std::vector<float>> gather(Transport& link,
                                              const std::vector<float>& mine) {
  std::vector<std::vector<float>> all;
  if (link.rank() != 0) {
    link.wait(link.send(0, std::as_bytes(std::span(mine))));
    return all;
  }
  all.push_back(mine);
  for (int peer = 1; peer < link.size(); ++peer) {
    std::vector<std::byte> bytes;
    link.wait(link.recv(peer, bytes, mine.size() * sizeof(float)));
    std::vector<float> theirs(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
    all.push_back(std::move(theirs));
  }
  return all;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// What is wrong with one step, seen from rank 0; nothing if all is well.
inline std::optional<std::string> violation(const Case& c,
                                            const std::vector<std::vector<float>>& before,
                                            int step,
                                            const std::vector<std::vector<float>>& after,
                                            const std::vector<std::vector<float>>& sums) {
  for (std::size_t r = 1; r < sums.size(); ++r)
    if (!same_bits(sums[0], sums[r]))
      return "rank " + std::to_string(r) + " has another sum than rank 0";
  std::vector<std::vector<float>> grads;
  for (std::size_t r = 0; r < sums.size(); ++r)
    grads.push_back(gradient(c, static_cast<int>(r), step));
  for (std::size_t i = 0; i < c.n; ++i) {
    double owed = 0;
    double still = 0;
    double magnitude = 0;
    for (std::size_t r = 0; r < sums.size(); ++r) {
      const double g = grads[r][i];
      owed += before[r][i] + g;
      still += after[r][i];
      magnitude += std::abs(static_cast<double>(before[r][i])) + std::abs(g);
    }
    const double lost = std::abs(owed - still - static_cast<double>(sums[0][i]));
    const double allowed =
        c.data == Data::random
            ? magnitude * static_cast<double>(sums.size() + 1) * 0x1p-23
            : 0;
    if (!(lost <= allowed))
      return "coordinate " + std::to_string(i) + " lost " + std::to_string(lost);
  }
  return std::nullopt;
}

/// Runs `c` on this rank. Every rank returns; rank 0 returns the first violation, and any
/// rank one that it alone can see.
inline std::optional<std::string> violation(const Case& c, Transport& link) {
  const Layout layout = Layout::flat(c.n);
  const auto pick = make_compressor(Spec::parse(c.compressor), layout);
  const auto channel = link.channel(1);
  const auto collective =
      make_collective(Spec::parse(c.collective), *channel, *pick, layout);
  std::vector<float> acc = gradient(c, link.rank(), -1);
  std::vector<float> kept(c.n, 0.0F);
  std::optional<std::string> wrong;
  for (int step = 0; step < c.steps; ++step) {
    const std::vector<float> before = acc;
    std::vector<float> grad = gradient(c, link.rank(), step);
    std::vector<float>& sum = c.in_place ? grad : kept;
    const Reduced reduced = collective->reduce(acc, grad, c.k, sum);
    if (!reduced.finite) wrong = "called not finite";
    if (!reduced.index.empty() || reduced.count == 0) {
      std::vector<bool> listed(c.n);
      for (const std::uint32_t i : reduced.index) {
        if (listed[i]) wrong = "a coordinate of the sum is listed twice";
        listed[i] = true;
      }
      for (std::size_t i = 0; i < c.n; ++i)
        if (!listed[i] && sum[i] != 0) wrong = "a coordinate of the sum is not listed";
      if (reduced.index.size() != reduced.count) wrong = "count and index differ";
    }
    const auto all_before = gather(link, before);
    const auto all_after = gather(link, acc);
    const auto all_sums = gather(link, sum);
    if (link.rank() == 0 && !wrong)
      wrong = violation(c, all_before, step, all_after, all_sums);
    std::fill(kept.begin(), kept.end(), 0.0F);
  }
  return wrong;
}

/// The sizes at which things go wrong, for `ranks` ranks.
inline std::vector<std::size_t> awkward_sizes(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> sizes = {0, 1, p - 1, p, p + 1, 1000, 4097};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

inline std::vector<std::size_t> awkward_ks(int ranks, std::size_t n) {
  std::vector<std::size_t> ks = {0,      1, static_cast<std::size_t>(ranks) - 1,
                                 n / 50, n, n + 1};
  std::sort(ks.begin(), ks.end());
  ks.erase(std::unique(ks.begin(), ks.end()), ks.end());
  return ks;
}

}  // namespace topknot::testing

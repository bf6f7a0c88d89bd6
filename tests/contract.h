// SPDX-License-Identifier: Apache-2.0
//
// The law, as a check that any collective over any transport can be held to: nothing is
// lost, all ranks agree bit for bit, and on no less than was promised (promise.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "promise.h"
#include "topknot/catalog.h"

namespace topknot::testing {

/// `jumps` is for many steps; the others are kAllData.
enum class Data { integers, random, zeros, equal, one_huge, signs, jumps };
inline constexpr Data kAllData[] = {Data::integers, Data::random,   Data::zeros,
                                    Data::equal,    Data::one_huge, Data::signs};

struct Case {
  std::string collective;
  std::string compressor = "topk";
  std::size_t n = 0;
  std::size_t k = 0;
  Data data = Data::integers;
  int steps = 3;
  bool in_place = false;  // the sum goes into the memory of the gradient

  std::string str(int ranks) const {
    static constexpr const char* kNames[] = {"integers", "random",      "zeros", "equal",
                                             "one huge", "equal signs", "jumps"};
    return collective + " with " + compressor + ", P=" + std::to_string(ranks) +
           " n=" + std::to_string(n) + " k=" + std::to_string(k) + " " +
           kNames[static_cast<int>(data)] + (in_place ? ", in place" : "");
  }
};

/// The gradient of one rank on one step: the same whoever asks. Step -1 is the first
/// residual.
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
      case Data::signs:  // integers without a zero, of one sign at each coordinate
        x[i] = 1 + std::trunc(8 * std::abs(own.laplace())) +
               std::trunc(8 * std::abs(common.laplace()));
        if (i * 2654435761U % 7 < 3) x[i] = -x[i];
        break;
      case Data::jumps:  // up and down, so that the residual is large or small beside it
        x[i] = 1 + std::trunc(8 * std::abs(common.laplace()));
        if (step % 4 == 3) x[i] *= 1024;
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

/// One step, seen from rank 0: everything by rank.
struct Seen {
  std::vector<std::vector<float>> before;
  std::vector<std::vector<float>> after;
  std::vector<std::vector<float>> sums;
  std::vector<std::vector<float>> settled;  // 1 where in the sum or settled
};

/// What is wrong with a step, if anything.
inline std::optional<std::string> violation(const Case& c, int step, const Seen& seen) {
  const std::size_t ranks = seen.sums.size();
  for (std::size_t r = 1; r < ranks; ++r)
    if (!same_bits(seen.sums[0], seen.sums[r]))
      return "rank " + std::to_string(r) + " has another sum than rank 0";
  Agreed agreed{c.k, step, seen.before, std::vector<bool>(c.n), seen.sums[0]};
  std::vector<std::vector<float>> grads;
  for (std::size_t r = 0; r < ranks; ++r)
    grads.push_back(gradient(c, static_cast<int>(r), step));
  for (std::size_t i = 0; i < c.n; ++i) {
    double before = 0;
    double after = 0;
    double magnitude = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const double g = grads[r][i];
      before += seen.before[r][i] + g;
      after += seen.after[r][i];
      magnitude += std::abs(static_cast<double>(seen.before[r][i])) + std::abs(g);
      agreed.folded[r][i] += grads[r][i];
      if (seen.settled[r][i] != 0) agreed.settled[i] = true;
    }
    const double lost = std::abs(before - after - static_cast<double>(seen.sums[0][i]));
    const double allowed =
        c.data == Data::random ? magnitude * static_cast<double>(ranks + 1) * 0x1p-23 : 0;
    if (!(lost <= allowed))
      return "coordinate " + std::to_string(i) + " lost " + std::to_string(lost);
  }
  return shortfall(promise_of(Spec::parse(c.collective), Spec::parse(c.compressor)),
                   agreed);
}

/// What is wrong with what one rank was told of its step. Marks in `touched` what is in
/// the sum or was settled.
inline std::optional<std::string> violation(const Case& c, const Reduced& reduced,
                                            std::span<const float> residual,
                                            std::span<const float> sum,
                                            std::vector<float>& touched) {
  if (!reduced.finite) return "called not finite";
  const bool dense = reduced.index.empty() && reduced.count != 0;
  touched.assign(c.n, dense ? 1.0F : 0.0F);
  if (dense && reduced.count != c.n) return "lists nothing, and is not dense";
  if (dense) return std::nullopt;
  for (const std::uint32_t i : reduced.index) {
    if (touched[i] != 0) return "a coordinate of the sum is listed twice";
    touched[i] = 1;
  }
  for (std::size_t i = 0; i < c.n; ++i)
    if (touched[i] == 0 && sum[i] != 0) return "a coordinate of the sum is not listed";
  if (reduced.index.size() != reduced.count) return "count and index differ";
  std::vector<bool> settled(c.n);
  const bool rounded = c.collective.find("values=") != std::string::npos;
  for (const std::uint32_t i : reduced.settled) {
    if (settled[i]) return "a coordinate is settled twice";
    if (!rounded && residual[i] != 0)
      return "a coordinate is called settled, and still in the residual";
    settled[i] = true;
    touched[i] = 1;
  }
  return std::nullopt;
}

/// Makes a rank's collective for a case.
using Maker = std::function<std::unique_ptr<Collective>(const Case&, Transport&,
                                                        Compressor&, const Layout&)>;

inline std::unique_ptr<Collective> from_the_catalog(const Case& c, Transport& link,
                                                    Compressor& compressor,
                                                    const Layout& layout) {
  return make_collective(Spec::parse(c.collective), link, compressor, layout);
}

/// Runs `c` on this rank. Every rank returns; rank 0 returns the first violation, and any
/// rank one that it alone can see.
inline std::optional<std::string> violation(const Case& c, Transport& link,
                                            const Maker& make = from_the_catalog) {
  const Layout layout = Layout::flat(c.n);
  const auto compressor = make_compressor(Spec::parse(c.compressor), layout);
  const auto channel = link.channel(1);
  const auto collective = make(c, *channel, *compressor, layout);
  std::vector<float> residual = gradient(c, link.rank(), -1);
  std::vector<float> kept(c.n, 0.0F);
  std::vector<float> settled(c.n);
  std::optional<std::string> wrong;
  for (int step = 0; step < c.steps; ++step) {
    const std::vector<float> before = residual;
    std::vector<float> grad = gradient(c, link.rank(), step);
    std::vector<float>& sum = c.in_place ? grad : kept;
    const Reduced reduced = collective->reduce(residual, grad, c.k, sum);
    const auto mine = violation(c, reduced, residual, sum, settled);
    if (!wrong) wrong = mine;
    const Seen seen{gather(link, before), gather(link, residual), gather(link, sum),
                    gather(link, settled)};
    if (link.rank() == 0 && !wrong) wrong = violation(c, step, seen);
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

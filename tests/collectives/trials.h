// SPDX-License-Identifier: Apache-2.0
//
// Trials that a collective can be put through with parameters that the contract test does
// not know of: the law, nonfinite steps, a rank that leaves, and what everyone sends.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "contract.h"
#include "copy_of.h"
#include "ranks.h"
#include "topknot/error.h"

namespace topknot::testing {

/// Holds `collective` to the law on sizes and data at which things go wrong.
inline void hold_to_the_law(const std::string& collective, int ranks,
                            std::span<const Data> all_data = kAllData) {
  const auto many = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> sizes = {1, many - 1, many + 1, 700};
#ifdef TOPKNOT_SANITIZED  // where dozens of threads take minutes
  if (ranks > 9) sizes = {many + 1};
#endif
  std::vector<Case> cases;
  for (const std::size_t n : sizes)
    for (const std::size_t k : awkward_ks(ranks, n))
      for (const Data data : all_data)
        cases.push_back({.collective = collective,
                         .n = n,
                         .k = k,
                         .data = data,
                         .steps = 2,
                         .in_place = (n + k) % 2 == 0});
  std::mutex mutex;
  run(ranks, [&](Transport& link) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto part = link.channel(static_cast<int>(i));
      const auto wrong = violation(cases[i], *part);
      if (!wrong) continue;
      const std::scoped_lock lock(mutex);
      ADD_FAILURE() << cases[i].str(ranks) << ": " << *wrong;
    }
  });
}

/// Without Data::random: the error of 2-bit values is itself rounded where a value is far
/// smaller than the scale, which is more than the contract allows for.
inline constexpr Data kExactData[] = {Data::integers, Data::zeros, Data::equal,
                                      Data::one_huge};

inline void hold_to_the_law_with_2_bits(const std::string& collective, int ranks) {
  hold_to_the_law(collective, ranks, kExactData);
}

/// Each rank in turn has a gradient that is not finite; then sums overflow.
inline void hold_nonfinite_steps(const std::string& collective, int ranks) {
  const std::size_t n = 300;
  const Case c{.collective = collective, .n = n, .k = 30};
  run(ranks, [&](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse(collective), link, *compressor, layout);
    std::vector<float> residual = gradient(c, link.rank(), -1);
    std::vector<float> sum(n);
    for (int nonfinite = 0; nonfinite < ranks; ++nonfinite) {
      const std::vector<float> before = residual;
      std::vector<float> grad = gradient(c, link.rank(), nonfinite);
      if (link.rank() == nonfinite) grad[7] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_FALSE(made->reduce(residual, grad, c.k, sum).finite)
          << collective << ", rank " << nonfinite << " of " << ranks << " nonfinite";
      EXPECT_EQ(residual, before);
    }
    EXPECT_TRUE(made->reduce(residual, copy_of(gradient(c, link.rank(), ranks)), c.k, sum)
                    .finite);

    residual.assign(n, 0.0F);
    std::vector<float> huge(n, std::numeric_limits<float>::max());
    EXPECT_FALSE(made->reduce(residual, huge, n, huge).finite)
        << collective << " overflows";
    EXPECT_EQ(residual, std::vector<float>(n));
  });
}

/// The last rank never comes: whoever notices has lost nothing.
inline void hold_a_lost_rank(const std::string& collective, int ranks) {
  int noticed = 0;
  std::mutex mutex;
  run_to_the_end(ranks, [&](Transport& link) {
    if (link.rank() == ranks - 1) return;
    const Layout layout = Layout::flat(100);
    const auto compressor = make_compressor({"topk", {}}, layout);
    const auto made = make_collective(Spec::parse(collective), link, *compressor, layout);
    std::vector<float> residual(100, 2.0F);
    std::vector<float> sum(100);
    try {
      made->reduce(residual, copy_of(std::vector<float>(100, 1.0F)), 10, sum);
      ADD_FAILURE() << collective << ": rank " << link.rank() << " did not notice";
    } catch (const LinkError&) {
      const std::scoped_lock lock(mutex);
      ++noticed;
      EXPECT_EQ(residual, std::vector<float>(100, 3.0F));
    }
  });
  EXPECT_EQ(noticed, ranks - 1);
}

// ---- what is sent

enum class Shape { correlated, uncorrelated, skewed };
inline constexpr Shape kAllShapes[] = {Shape::correlated, Shape::uncorrelated,
                                       Shape::skewed};

/// `skewed` has all that is large within the first fiftieth, on every rank.
inline std::vector<float> shaped(Shape shape, std::size_t n, int rank, int step) {
  core::Random own(static_cast<std::uint64_t>(1000 * step + rank + 1));
  core::Random common(static_cast<std::uint64_t>(step) + 99999);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float mine = own.laplace();
    const float ours = common.laplace();
    if (shape == Shape::uncorrelated) x[i] = mine;
    if (shape == Shape::correlated) x[i] = ours + 0.3F * mine;
    if (shape == Shape::skewed) x[i] = (i < n / 50 ? 1000.0F : 1.0F) * (ours + mine);
  }
  return x;
}

/// What each rank sent on each step: sent[step][rank].
inline std::vector<std::vector<Traffic>> sent_by(const std::string& collective, int ranks,
                                                 std::size_t n, std::size_t k,
                                                 Shape shape, int steps) {
  std::vector<std::vector<Traffic>> sent(
      static_cast<std::size_t>(steps),
      std::vector<Traffic>(static_cast<std::size_t>(ranks)));
  run(ranks, [&](Transport& link) {
    const auto traffic = std::make_shared<Traffic>();
    const auto metered = make_metered(link.channel(0), traffic);
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made =
        make_collective(Spec::parse(collective), *metered, *compressor, layout);
    std::vector<float> residual(n);
    for (int step = 0; step < steps; ++step) {
      std::vector<float> grad = shaped(shape, n, link.rank(), step);
      *traffic = {};
      made->reduce(residual, grad, k, grad);
      sent[static_cast<std::size_t>(step)][static_cast<std::size_t>(link.rank())] =
          *traffic;
    }
  });
  return sent;
}

/// ceil(log2 x), for x >= 1.
inline std::uint64_t log2_up(int x) {
  std::uint64_t rounds = 0;
  while ((1 << rounds) < x) ++rounds;
  return rounds;
}

}  // namespace topknot::testing

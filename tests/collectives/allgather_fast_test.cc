// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/one_step.h"
#include "contract.h"

namespace topknot::testing {
namespace {

constexpr std::size_t kWindow = 32768;  // as in allgather_fast.cc

// Random floats, so that another order of additions would be seen in the bits.
std::vector<float> noise(std::size_t n, int rank, int step) {
  core::Random own(static_cast<std::uint64_t>(100 * step + rank));
  std::vector<float> x(n);
  for (float& v : x) v = own.laplace();
  return x;
}

TEST(AllgatherFast, HasTheBitsOfTopka) {
  for (const int ranks : {1, 2, 3, 8, 9})
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, kWindow - 1, kWindow,
                                kWindow + 1, 2 * kWindow + 100})
      for (const std::size_t k : {n / 1000, n / 20, n / 2}) {
        const Gradients gradient = [n](int r, int step) { return noise(n, r, step); };
        const auto slow = reduce(ranks, "topka", n, k, gradient, 2);
        const auto fast = reduce(ranks, "allgather_fast", n, k, gradient, 2);
        for (std::size_t r = 0; r < slow.size(); ++r) {
          SCOPED_TRACE("P=" + std::to_string(ranks) + " n=" + std::to_string(n) +
                       " k=" + std::to_string(k) + " rank " + std::to_string(r));
          EXPECT_TRUE(same_bits(fast[r].sum, slow[r].sum));
          EXPECT_TRUE(same_bits(fast[r].residual, slow[r].residual));
          EXPECT_EQ(fast[r].settled, slow[r].settled);
          EXPECT_TRUE(std::ranges::is_sorted(fast[r].index));
          auto listed = slow[r].index;
          std::ranges::sort(listed);
          EXPECT_EQ(fast[r].index, listed);
        }
      }
}

// With few pairs the vector is cleared as a whole, with many a window at a time.
TEST(AllgatherFast, WritesOverTheGradient) {
  const std::size_t n = 2 * kWindow + 3;
  for (const std::size_t k : {n / 1000, n / 10})
    run(3, [&](Transport& link) {
      const auto compressor = make_compressor({"topk", {}}, Layout::flat(n));
      const auto made =
          make_collective({"allgather_fast", {}}, link, *compressor, Layout::flat(n));
      std::vector<float> residual(n);
      std::vector<float> grad = noise(n, link.rank(), 0);
      made->reduce(residual, grad, k, grad);
      std::vector<float> expected(n);
      for (int r = 0; r < 3; ++r) expected = added(expected, largest(noise(n, r, 0), k));
      EXPECT_EQ(grad, expected) << "k=" << k;
    });
}

TEST(AllgatherFast, KeepsTheLawWithManyRanks) {
  for (const int ranks : {16, 33})
    run(ranks, [&](Transport& link) {
      int id = 0;
      for (const Data data : kAllData)
        for (const char* values : {"f32", "bf16"}) {
          const Case c{.collective = std::string("allgather_fast:values=") + values,
                       .n = 500,
                       .k = 20,
                       .data = data};
          const auto part = link.channel(id++);
          const auto wrong = violation(c, *part);
          EXPECT_FALSE(wrong) << c.str(ranks) << ": " << wrong.value_or("");
        }
    });
}

TEST(AllgatherFast, SendsExactlyEverySelectionButOne) {
  for (const int ranks : {2, 3, 4, 8, 16})
    for (const auto gradient : kGradients) {
      const std::size_t n = 6400;
      const std::size_t k = 64;
      const auto outcomes = reduce(
          ranks, "allgather_fast:coding=plain", n, k,
          [&](int rank, int step) { return gradient(n, rank, step); }, 2);
      for (const Outcome& one : outcomes)
        EXPECT_EQ(words(one.traffic), 2 * k * static_cast<std::size_t>(ranks - 1));
    }
}

}  // namespace
}  // namespace topknot::testing

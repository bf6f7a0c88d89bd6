// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/random.h"
#include "topknot/catalog.h"

namespace topknot {
namespace {

std::vector<std::uint32_t> naive(const std::vector<float>& x, std::size_t block,
                                 std::size_t blocks) {
  std::vector<double> weights((x.size() + block - 1) / block);
  for (std::size_t i = 0; i < x.size(); ++i)
    weights[i / block] += std::abs(static_cast<double>(x[i]));
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  order.resize(std::min(blocks, order.size()));
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> index;
  for (const std::size_t b : order)
    for (std::size_t i = b * block; i < std::min((b + 1) * block, x.size()); ++i)
      index.push_back(static_cast<std::uint32_t>(i));
  return index;
}

TEST(BlockTopK, KeepsTheHeaviestBlocksWhateverTheirLength) {
  for (const std::size_t block : {1U, 3U, 64U, 100U, 4097U, 20000U}) {
    const std::size_t n = 12345;
    const auto compressor = make_compressor(
        Spec::parse("blocktopk:block=" + std::to_string(block)), Layout::flat(n));
    core::Random random(block);
    std::vector<float> residual(n);
    for (float& value : residual) value = std::trunc(9 * random.laplace());
    for (const std::size_t k : {1U, 500U, 12344U}) {
      Sparse out;
      ASSERT_TRUE(compressor->select(residual, {}, k, out));
      EXPECT_EQ(out.index, naive(residual, block, (k + block - 1) / block))
          << "block " << block << " k " << k;
    }
  }
}

TEST(BlockTopK, WeighsTheLargestAndTheSmallestNumbers) {
  const auto compressor =
      make_compressor(Spec::parse("blocktopk:block=4"), Layout::flat(12));
  std::vector<float> residual(12);
  residual[9] = std::numeric_limits<float>::denorm_min();
  Sparse out;
  ASSERT_TRUE(compressor->select(residual, {}, 4, out));
  EXPECT_EQ(out.index, (std::vector<std::uint32_t>{8, 9, 10, 11}));
  std::fill_n(residual.begin() + 4, 4, std::numeric_limits<float>::max());
  ASSERT_TRUE(compressor->select(residual, {}, 4, out));
  EXPECT_EQ(out.index, (std::vector<std::uint32_t>{4, 5, 6, 7}));
}

}  // namespace
}  // namespace topknot

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "copy_of.h"
#include "core/random.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot {
namespace {

/// The part of `x` that lies in [begin, end).
Sparse part(const Sparse& x, std::size_t begin, std::size_t end) {
  Sparse inside;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x.index[i] >= begin && x.index[i] < end) inside.push_back(x.index[i], x.value[i]);
  return inside;
}

TEST(Chunked, IsExactWithinEveryChunkAndGivesEachItsShare) {
  const std::size_t n = 50000;
  const std::size_t chunk = 4096;
  const std::size_t k = 777;
  const auto compressor = make_compressor({"chunked", {}}, Layout::flat(n));
  core::Random random(3);
  std::vector<float> residual(n);
  std::vector<float> grad(n);
  Sparse out;
  for (int step = 0; step < 12; ++step) {
    for (std::size_t i = 0; i < n; ++i)  // chunks of very different scales
      grad[i] =
          std::trunc(9 * random.laplace()) * std::exp2(static_cast<float>(i / 9000));
    ASSERT_TRUE(compressor->select(residual, testing::copy_of(grad), k, out));
    EXPECT_EQ(out.size(), k);
    for (std::size_t begin = 0; begin < n; begin += chunk) {
      const std::size_t end = std::min(begin + chunk, n);
      const Sparse got = part(out, begin, end);
      const double share = static_cast<double>((end - begin) * k) / n;
      EXPECT_GE(static_cast<double>(got.size()), std::floor(share));
      EXPECT_LE(static_cast<double>(got.size()), std::ceil(share));
      Sparse all;
      for (std::size_t i = begin; i < end; ++i)
        all.push_back(static_cast<std::uint32_t>(i), residual[i]);
      core::keep_largest(all, got.size());
      EXPECT_EQ(got, all) << "chunk at " << begin << ", step " << step;
    }
    for (const std::uint32_t i : out.index) residual[i] = 0;
  }
}

TEST(Chunked, StarvesNoChunkWhenThereAreMoreChunksThanCoordinatesWanted) {
  const std::size_t n = 3200;
  const auto compressor =
      make_compressor(Spec::parse("chunked:chunk=32"), Layout::flat(n));
  std::vector<float> residual(n, 1.0F);
  std::vector<int> served(n / 32);
  Sparse out;
  for (int step = 0; step < 100; ++step) {
    ASSERT_TRUE(compressor->select(residual, {}, 10, out));
    EXPECT_EQ(out.size(), 10U);
    for (const std::uint32_t i : out.index) ++served[i / 32];
  }
  for (const int times : served) EXPECT_NEAR(times, 10, 2);
}

}  // namespace
}  // namespace topknot

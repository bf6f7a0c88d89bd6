// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "core/random.h"
#include "core/select.h"
#include "topknot/catalog.h"

namespace topknot {
namespace {

Sparse largest(const std::vector<float>& x, std::size_t k) {
  Sparse all;
  for (std::size_t i = 0; i < x.size(); ++i)
    all.push_back(static_cast<std::uint32_t>(i), x[i]);
  core::keep_largest(all, k);
  return all;
}

TEST(Dgc, CutsByMagnitudeAndNotByPosition) {
  // Everything reaches the sampled threshold but the zeros; what is largest comes last.
  const std::size_t n = 100000;
  std::vector<float> residual(n);
  for (std::size_t i = 0; i < n; ++i)
    residual[i] = i % 10 == 0 ? 1.0F + static_cast<float>(i) / n : 0.0F;
  for (const char* name : {"dgc", "dgc:spare=0"}) {
    const auto compressor = make_compressor(Spec::parse(name), Layout::flat(n));
    Sparse out;
    for (int step = 0; step < 20; ++step) {
      ASSERT_TRUE(compressor->select(residual, {}, 1000, out));
      ASSERT_LE(out.size(), 1000U);
      EXPECT_EQ(out, largest(residual, out.size()));
    }
  }
}

TEST(Dgc, IsNearlyAlwaysExactWithASpareInTheThreshold) {
  const std::size_t n = 200000;
  const auto compressor = make_compressor({"dgc", {}}, Layout::flat(n));
  core::Random random(5);
  std::vector<float> residual(n);
  Sparse out;
  int exact = 0;
  for (int step = 0; step < 40; ++step) {
    for (float& value : residual) value = random.laplace();
    ASSERT_TRUE(compressor->select(residual, {}, 2000, out));
    if (out == largest(residual, 2000)) ++exact;
  }
  EXPECT_GE(exact, 38);
}

TEST(Dgc, FindsTheLargestOfAllWhenTheSampleMisleads) {
  // Large just where the first step samples, and nowhere else: 97 is the stride there.
  const std::size_t n = 6000;
  const std::size_t k = 200;
  const std::size_t start = core::Random(1, 0).below(97);
  std::vector<float> residual(n);
  for (std::size_t i = 0; i < n; ++i)
    residual[i] = i % 97 == start ? 100.0F : 1.0F / static_cast<float>(1 + i);
  const auto compressor = make_compressor({"dgc", {}}, Layout::flat(n));
  Sparse out;
  ASSERT_TRUE(compressor->select(residual, {}, k, out));
  EXPECT_EQ(out, largest(residual, k));

  const auto lenient = make_compressor(Spec::parse("dgc:lower=0"), Layout::flat(n));
  ASSERT_TRUE(lenient->select(residual, {}, k, out));
  EXPECT_LT(out.size(), 80U) << "the sample did not mislead: this test shows nothing";
}

}  // namespace
}  // namespace topknot

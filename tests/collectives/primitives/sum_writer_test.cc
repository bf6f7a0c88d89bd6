// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/sum_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace topknot::collective {
namespace {

TEST(SumWriter, AddsInOrderAndListsEachCoordinateOnce) {
  SumWriter writer;
  std::vector<float> sum(10);
  const std::vector<Sparse> blocks = {{{1, 4}, {1, 2}}, {{}, {}}, {{4, 9}, {3, -1}}};
  ASSERT_TRUE(writer.add(blocks, {}, sum));
  EXPECT_EQ(sum, (std::vector<float>{0, 1, 0, 0, 5, 0, 0, 0, 0, -1}));
  std::vector<std::uint32_t> index(writer.index().begin(), writer.index().end());
  std::sort(index.begin(), index.end());
  EXPECT_EQ(index, (std::vector<std::uint32_t>{1, 4, 9}));

  std::vector<float> grad(10, 5.0F);
  ASSERT_TRUE(writer.add(blocks, grad, grad));
  EXPECT_EQ(grad, sum);
}

TEST(SumWriter, WritesNothingThatMightOverflow) {
  SumWriter writer;
  const float huge = std::numeric_limits<float>::max();
  std::vector<float> grad(3, 5.0F);
  EXPECT_FALSE(writer.add(std::vector<Sparse>{{{1}, {huge}}, {{1}, {huge}}}, grad, grad));
  EXPECT_EQ(grad, std::vector<float>(3, 5.0F));
}

TEST(WriteSum, ClearsTheGradientsMemoryFirst) {
  const Sparse pairs = {{1, 3}, {5, -2}};
  std::vector<float> sum(4);
  write_sum(pairs, {}, sum);
  EXPECT_EQ(sum, (std::vector<float>{0, 5, 0, -2}));
  std::vector<float> grad(4, 7.0F);
  write_sum(pairs, grad, grad);
  EXPECT_EQ(grad, sum);
}

}  // namespace
}  // namespace topknot::collective

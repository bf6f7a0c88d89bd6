// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/settle.h"

#include <gtest/gtest.h>

#include "topknot/error.h"

namespace topknot::collective {
namespace {

TEST(Settle, RefusesErrorsOfOtherPositions) {
  std::vector<float> residual(4, 1.0F);
  const std::vector<std::uint32_t> index = {0, 2};
  EXPECT_THROW(settle(index, std::vector<float>{0.5F}, residual), ContractError);
  EXPECT_THROW(settle(index, std::vector<float>(3), residual), ContractError);
  EXPECT_EQ(residual, std::vector<float>(4, 1.0F));
}

TEST(Settle, LeavesWhatRoundingTookOff) {
  std::vector<float> residual(4, 1.0F);
  const std::vector<std::uint32_t> index = {0, 2};
  settle(index, std::vector<float>{0.5F, -2.0F}, residual);
  EXPECT_EQ(residual, (std::vector<float>{0.5F, 1, -2, 1}));
  settle(index, {}, residual);
  EXPECT_EQ(residual, (std::vector<float>{0, 1, 0, 1}));
}

}  // namespace
}  // namespace topknot::collective

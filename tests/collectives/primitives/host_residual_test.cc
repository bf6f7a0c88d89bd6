// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/host_residual.h"

#include <gtest/gtest.h>

#include "topknot/error.h"

namespace topknot::collective {
namespace {

TEST(HostResidual, RefusesErrorsOfOtherPositions) {
  std::vector<float> residual(4, 1.0F);
  HostResidual host(residual);
  const std::vector<std::uint32_t> index = {0, 2};
  EXPECT_THROW(host.settle(index, std::vector<float>{0.5F}), ContractError);
  EXPECT_THROW(host.settle(index, std::vector<float>(3)), ContractError);
  EXPECT_EQ(residual, std::vector<float>(4, 1.0F));
}

TEST(HostResidual, LeavesWhatRoundingTookOff) {
  std::vector<float> residual(4, 1.0F);
  HostResidual host(residual);
  const std::vector<std::uint32_t> index = {0, 2};
  host.settle(index, std::vector<float>{0.5F, -2.0F});
  EXPECT_EQ(residual, (std::vector<float>{0.5F, 1, -2, 1}));
  host.settle(index, {});
  EXPECT_EQ(residual, (std::vector<float>{0, 1, 0, 1}));
}

}  // namespace
}  // namespace topknot::collective

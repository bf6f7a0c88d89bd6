// SPDX-License-Identifier: Apache-2.0
#include "job/pass_memory.h"

#include <gtest/gtest.h>

#include <limits>

namespace topknot::train {
namespace {

TEST(PassMemory, BringsBackWhatWasKeptLast) {
  std::vector<float> statistic = {1, 2};
  std::vector<float> carried = {3};
  std::vector<float> none;
  PassMemory memory({statistic, carried, none});
  memory.keep();
  statistic[1] = 5;
  memory.keep();
  statistic[0] = carried[0] = std::numeric_limits<float>::quiet_NaN();
  for (int twice = 0; twice < 2; ++twice) {
    memory.restore();
    EXPECT_EQ(statistic, (std::vector<float>{1, 5}));
    EXPECT_EQ(carried, std::vector<float>{3});
  }
}

}  // namespace
}  // namespace topknot::train

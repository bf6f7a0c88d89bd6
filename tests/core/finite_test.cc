// SPDX-License-Identifier: Apache-2.0
#include "core/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace topknot::core {
namespace {

TEST(AllFinite, FindsANonfiniteValueAnywhere) {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()})
    for (std::size_t n = 1; n < 40; ++n)
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<float> x(n, -Limits::max());
        x[i] = Limits::denorm_min();
        EXPECT_TRUE(all_finite(x));
        x[i] = bad;
        EXPECT_FALSE(all_finite(x)) << i << " of " << n;
      }
  EXPECT_TRUE(all_finite({}));
}

}  // namespace
}  // namespace topknot::core

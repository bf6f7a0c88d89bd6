// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/regions.h"

#include <gtest/gtest.h>

namespace topknot::collective {
namespace {

TEST(EqualRegion, CoversEverythingOnceTheLongerPartsFirst) {
  for (std::uint64_t n = 0; n < 40; ++n)
    for (int parts = 1; parts < 12; ++parts) {
      std::uint64_t at = 0;
      std::uint64_t last = n;
      for (int part = 0; part < parts; ++part) {
        const Region region = equal_region(n, parts, part);
        EXPECT_EQ(region.begin, at);
        EXPECT_LE(region.size(), last);
        at = region.end;
        last = region.size();
      }
      EXPECT_EQ(at, n);
    }
}

TEST(PartOf, IsEmptyWhereTheVectorIs) {
  std::vector<float> x = {1, 2, 3, 4};
  const std::span<float> part = part_of(std::span(x), {1, 3});
  ASSERT_EQ(part.size(), 2U);
  EXPECT_EQ(part[0], 2);
  EXPECT_TRUE(part_of(std::span<float>(), {1, 3}).empty());
}

}  // namespace
}  // namespace topknot::collective

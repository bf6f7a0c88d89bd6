// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <gtest/gtest.h>

namespace topknot::cli {
namespace {

using Words = std::vector<std::string>;

TEST(SplitSpecs, LeavesParametersWithTheirName) {
  EXPECT_EQ(split_specs("knot"), Words{"knot"});
  EXPECT_EQ(split_specs("knot,oktopk:tau=64,cap=2,dense"),
            (Words{"knot", "oktopk:tau=64,cap=2", "dense"}));
  EXPECT_EQ(split_specs("a:x=1,b:y=2"), (Words{"a:x=1", "b:y=2"}));
  EXPECT_EQ(split_specs("knot,"), (Words{"knot", ""}));  // whose name is then missing
}

TEST(Counted, HasAPluralButForOne) {
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(1404, "step"), "1,404 steps");
}

TEST(WithCommas, GroupsByThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(123456), "123,456");
}

}  // namespace
}  // namespace topknot::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <gtest/gtest.h>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

using Words = std::vector<std::string>;

TEST(ParseCount, TakesUnitsOfThousandsAndOf1024) {
  EXPECT_EQ(parse_count("--n", "0"), 0U);
  EXPECT_EQ(parse_count("--n", "1048576"), 1048576U);
  EXPECT_EQ(parse_count("--n", "64k"), 64000U);
  EXPECT_EQ(parse_count("--n", "1.5M"), 1500000U);
  EXPECT_EQ(parse_count("--n", "2G"), 2000000000U);
  EXPECT_EQ(parse_count("--n", "4Ki"), 4096U);
  EXPECT_EQ(parse_count("--n", "1Mi"), 1048576U);
  EXPECT_EQ(parse_count("--n", "1e3"), 1000U);
}

TEST(ParseCount, RefusesWhatIsNone) {
  for (const char* text :
       {"", "k", "-1", "1.5", "1m", "1 k", "1kk", "0x10", "nan", "inf", "1e16", "1Ti"})
    EXPECT_THROW(parse_count("--n", text), ConfigError) << text;
}

TEST(ParseCounts, TakesAList) {
  EXPECT_EQ(parse_counts("--sizes", "8,64,4k"),
            (std::vector<std::uint64_t>{8, 64, 4000}));
  EXPECT_THROW(parse_counts("--sizes", "8,,9"), ConfigError);
  EXPECT_THROW(parse_counts("--sizes", "8,"), ConfigError);
}

TEST(SplitSpecs, LeavesParametersWithTheirName) {
  EXPECT_EQ(split_specs("knot"), Words{"knot"});
  EXPECT_EQ(split_specs("knot,oktopk:tau=64,cap=2,dense"),
            (Words{"knot", "oktopk:tau=64,cap=2", "dense"}));
  EXPECT_EQ(split_specs("a:x=1,b:y=2"), (Words{"a:x=1", "b:y=2"}));
  EXPECT_EQ(split_specs("knot,"), (Words{"knot", ""}));  // whose name is then missing
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

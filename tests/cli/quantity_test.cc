// SPDX-License-Identifier: Apache-2.0
#include "cli/quantity.h"

#include <gtest/gtest.h>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

TEST(ParseCount, TakesUnitsOfThousandsAndOf1024) {
  EXPECT_EQ(parse_count("--n", "0"), 0U);
  EXPECT_EQ(parse_count("--n", "1048576"), 1048576U);
  EXPECT_EQ(parse_count("--n", "64k"), 64000U);
  EXPECT_EQ(parse_count("--n", "1.5M"), 1500000U);
  EXPECT_EQ(parse_count("--n", "2G"), 2000000000U);
  EXPECT_EQ(parse_count("--n", "7B"), 7000000000U);
  EXPECT_EQ(parse_count("--n", "1T"), 1000000000000U);
  EXPECT_EQ(parse_count("--n", "4Ki"), 4096U);
  EXPECT_EQ(parse_count("--n", "1Mi"), 1048576U);
  EXPECT_EQ(parse_count("--n", "0.5Gi"), 536870912U);
  EXPECT_EQ(parse_count("--n", "1e3"), 1000U);
}

TEST(ParseCount, IsWholeWhereTheProductIsRounded) {
  for (std::uint64_t tenths = 1; tenths < 2000; ++tenths)
    EXPECT_EQ(parse_count("--n", std::to_string(tenths / 10) + "." +
                                     std::to_string(tenths % 10) + "M"),
              tenths * 100000);
  EXPECT_EQ(parse_count("--n", "2.000001M"), 2000001U);
}

TEST(ParseCount, RefusesWhatIsNone) {
  for (const char* text : {"", "k", "-1", "1.5", "1m", "1 k", "1kk", "0x10", "nan", "inf",
                           "1e16", "1Ti", "1e-9", "1.0001k"})
    EXPECT_THROW(parse_count("--n", text), ConfigError) << text;
  EXPECT_REFUSAL(
      parse_count("--params", "0", 1), ConfigError,
      "--params 0 is not a count of 1 or more; 4096, 64k, 14.7M and 4Mi (4 x 1048576) "
      "would be.");
}

TEST(ParseCounts, TakesAList) {
  EXPECT_EQ(parse_counts("--sizes", "8,64,4k"),
            (std::vector<std::uint64_t>{8, 64, 4000}));
  EXPECT_THROW(parse_counts("--sizes", "8,,9"), ConfigError);
  EXPECT_THROW(parse_counts("--sizes", "8,"), ConfigError);
}

TEST(ParseGbps, TakesTheUnitsOfNetworks) {
  EXPECT_DOUBLE_EQ(parse_gbps("1Gbps"), 1);
  EXPECT_DOUBLE_EQ(parse_gbps("100Mbps"), 0.1);
  EXPECT_DOUBLE_EQ(parse_gbps("2.5gbit"), 2.5);
  EXPECT_DOUBLE_EQ(parse_gbps("10"), 10);
  for (const char* text : {"", "0", "-1Gbps", "fast", "1GB/s"})
    EXPECT_THROW(parse_gbps(text), ConfigError) << text;
}

TEST(ParseSeconds, TakesUnitsOfTimeAndNone) {
  EXPECT_DOUBLE_EQ(parse_seconds("20us"), 20e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5ms"), 1.5e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("0"), 0);
  for (const char* text : {"", "-1s", "soon", "1min"})
    EXPECT_THROW(parse_seconds(text), ConfigError) << text;
}

}  // namespace
}  // namespace topknot::cli

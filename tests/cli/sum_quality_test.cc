// SPDX-License-Identifier: Apache-2.0
#include "cli/sum_quality.h"

#include <gtest/gtest.h>

#include <cmath>

namespace topknot::cli {
namespace {

TEST(DistanceFromTopk, IsZeroForTheTrueTopK) {
  const std::vector<float> all{3, -5, 1, 0, 4};
  EXPECT_EQ(distance_from_topk(std::vector<float>{0, -5, 0, 0, 4}, all), 0);
  EXPECT_EQ(distance_from_topk(all, all), 0);
  EXPECT_EQ(distance_from_topk(std::vector<float>(5), all), 0);
}

TEST(DistanceFromTopk, IsWhatIsMissingAndWhatIsTooMuch) {
  const std::vector<float> all{3, -5, 1, 0, 4};
  // True: -5 and 4. Agreed on -5 and 3: 4 is missing and 3 is too much.
  EXPECT_DOUBLE_EQ(distance_from_topk(std::vector<float>{3, -5, 0, 0, 0}, all),
                   std::sqrt((16.0 + 9.0) / (25.0 + 16.0)));
  // A part of a sum that is not complete counts, too.
  EXPECT_DOUBLE_EQ(distance_from_topk(std::vector<float>{0, -4, 0, 0, 0}, all), 1.0 / 5);
}

TEST(DistanceFromTopk, GivesTiesToTheLowerIndex) {
  const std::vector<float> all{2, 2, 2, 1};
  EXPECT_EQ(distance_from_topk(std::vector<float>{2, 2, 0, 0}, all), 0);
  EXPECT_DOUBLE_EQ(distance_from_topk(std::vector<float>{0, 2, 2, 0}, all), 1.0);
}

TEST(TouchedRows, AreCountedByWindow) {
  const Layout layout{
      {{"matrix", 0, {3, 2}}, {"bias", 6, {3}}, {"kernel", 9, {2, 1, 2}}}};
  TouchedRows rows(layout);
  std::vector<float> sum(13);
  sum[1] = 1;  // row 0 of the matrix
  sum[7] = 1;  // the bias has no rows
  rows.add(sum);
  sum.assign(13, 0);
  sum[12] = -1;  // row 1 of the kernel
  rows.add(sum);
  rows.end_window();
  rows.end_window();  // one in which nothing was touched
  const auto shares = rows.untouched();
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].tensor, "matrix");
  EXPECT_EQ(shares[0].rows, 3u);
  EXPECT_DOUBLE_EQ(shares[0].untouched, (2.0 / 3 + 1) / 2);
  EXPECT_DOUBLE_EQ(shares[1].untouched, (0.5 + 1) / 2);
}

}  // namespace
}  // namespace topknot::cli

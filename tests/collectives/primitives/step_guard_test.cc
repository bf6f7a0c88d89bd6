// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/step_guard.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <vector>

#include "collectives/primitives/host_residual.h"
#include "topknot/catalog.h"
#include "topknot/transports.h"

namespace topknot::collective {
namespace {

TEST(StepGuard, SelectsInsideARegionAndFoldsTheRest) {
  const auto alone = make_inproc(1);
  const auto compressor = make_compressor({"topk", {}}, Layout::flat(9));
  Params params;
  MessageChannel channel(*alone[0], "test", params);
  StepGuard guard(channel);
  std::vector<float> residual(9, 1.0F);
  HostResidual host(residual);
  std::vector<float> grad = {90, 80, 0, 2, -7, 1, 0, 60, 50};
  Sparse out;
  channel.begin(9, 2);
  guard.select_inside(*compressor, {2, 6}, residual, grad, 2, out);
  EXPECT_TRUE(channel.finite());
  EXPECT_EQ(residual, (std::vector<float>{91, 81, 1, 3, -6, 2, 1, 61, 51}));
  EXPECT_EQ(out, (Sparse{{3, 4}, {3, -6}}));
  guard.undo(host, grad);
  EXPECT_EQ(residual, std::vector<float>(9, 1.0F));
}

TEST(StepGuard, FoldsNoPartWhenOneIsNonfinite) {
  const auto alone = make_inproc(1);
  const auto compressor = make_compressor({"topk", {}}, Layout::flat(9));
  Params params;
  MessageChannel channel(*alone[0], "test", params);
  StepGuard guard(channel);
  for (std::size_t bad = 0; bad < 9; ++bad)
    for (const Region region : {Region{2, 6}, {0, 9}, {4, 4}}) {
      std::vector<float> residual(9, 1.0F);
      HostResidual host(residual);
      std::vector<float> grad(9, 2.0F);
      grad[bad] = std::numeric_limits<float>::infinity();
      Sparse out;
      channel.begin(9, 2);
      guard.select_inside(*compressor, region, residual, grad, 2, out);
      EXPECT_FALSE(channel.finite()) << bad;
      EXPECT_TRUE(out.empty()) << bad;
      guard.undo(host, grad);
      EXPECT_EQ(residual, std::vector<float>(9, 1.0F)) << bad;
    }
}

TEST(StepGuard, UndoesAFoldBitForBit) {
  const auto alone = make_inproc(1);
  Params params;
  MessageChannel channel(*alone[0], "test", params);
  StepGuard guard(channel);
  const std::vector<float> before = {0.1F, -0.0F, 1e-30F, 3e7F};
  std::vector<float> residual = before;
  HostResidual host(residual);
  std::vector<float> grad = {0.7F, 0.0F, 5.0F, 1e-3F};
  channel.begin(4, 1);
  guard.fold(host, grad);
  EXPECT_NE(residual, before);
  const Reduced reduced = guard.undo(host, grad);
  EXPECT_FALSE(reduced.finite);
  EXPECT_EQ(reduced.count, 0U);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(residual[i]),
              std::bit_cast<std::uint32_t>(before[i]));
}

TEST(StepGuard, UndoesNothingInAStepThatDidNotFold) {
  const auto alone = make_inproc(1);
  Params params;
  MessageChannel channel(*alone[0], "test", params);
  StepGuard guard(channel);
  std::vector<float> residual(3, 1.0F);
  HostResidual host(residual);
  std::vector<float> grad(3, 2.0F);
  channel.begin(3, 1);
  guard.fold(host, grad);
  EXPECT_EQ(residual, std::vector<float>(3, 3.0F));
  channel.begin(3, 1);
  guard.undo(host, grad);
  EXPECT_EQ(residual, std::vector<float>(3, 3.0F));
}

}  // namespace
}  // namespace topknot::collective

// SPDX-License-Identifier: Apache-2.0
#include "engine/bucket_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <numeric>
#include <set>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot::engine {
namespace {

using Positions = std::vector<std::size_t>;

Layout model(const std::vector<std::uint64_t>& sizes) {
  Layout layout;
  for (const std::uint64_t size : sizes)
    layout.tensors.push_back({std::to_string(layout.tensors.size()), 0, {size, 1}});
  return layout;
}

DensityGroup all_of(const Layout& layout, double density) {
  DensityGroup group{density, Positions(layout.tensors.size())};
  std::iota(group.tensors.begin(), group.tensors.end(), std::size_t{0});
  return group;
}

std::vector<Positions> positions(const std::vector<BucketPlan>& plans) {
  std::vector<Positions> found;
  for (const BucketPlan& plan : plans) found.push_back(plan.parameters);
  return found;
}

TEST(PlanBuckets, FillsFromTheBackUpToTheCap) {
  const Layout layout = model({10, 10, 10, 50, 10, 10});
  const auto plans = plan_buckets(layout, {all_of(layout, 0.1)}, 80, true);
  EXPECT_EQ(positions(plans), (std::vector<Positions>{{4, 5}, {3}, {1, 2}, {0}}));
  EXPECT_EQ(plans[0].layout.tensors[1], (TensorSlot{"5", 10, {10, 1}}));
}

TEST(PlanBuckets, MakesOneFlatVectorWithoutACap) {
  const Layout layout = model({10, 20, 30});
  const auto plans = plan_buckets(layout, {all_of(layout, 0.1)}, 0, true);
  ASSERT_EQ(positions(plans), (std::vector<Positions>{{0, 1, 2}}));
  EXPECT_EQ(plans[0].layout.size(), 60U);
}

TEST(PlanBuckets, KeepsDensitiesApartAndFusesTheDenseGroupLast) {
  const Layout layout = model({10, 10, 10, 10, 10, 10});
  const std::vector<DensityGroup> groups = {{0.01, {0, 3, 4}}, {0.1, {2}}, {1, {1, 5}}};
  const auto plans = plan_buckets(layout, groups, 80, true);
  EXPECT_EQ(positions(plans), (std::vector<Positions>{{3, 4}, {2}, {0}, {1, 5}}));
  EXPECT_TRUE(plans[3].fused);
  EXPECT_FALSE(plans[2].fused);
  EXPECT_EQ(positions(plan_buckets(layout, groups, 4, true)).back(), (Positions{1, 5}));
}

TEST(PlanBuckets, CutsADenseModelLikeAnyOther) {
  const Layout layout = model({10, 10, 10});
  const auto plans = plan_buckets(layout, {all_of(layout, 1)}, 80, false);
  EXPECT_EQ(positions(plans), (std::vector<Positions>{{1, 2}, {0}}));
  EXPECT_FALSE(plans[0].fused);
}

TEST(PlanBuckets, LeavesOutWhatHasNoCoordinates) {
  const Layout layout = model({0, 10, 0});
  EXPECT_EQ(positions(plan_buckets(layout, {all_of(layout, 1)}, 4, true)),
            (std::vector<Positions>{{1}}));
  EXPECT_TRUE(plan_buckets({}, {}, 4, true).empty());
}

TEST(PlanBuckets, RefusesWhatCannotBeKept) {
  Layout twice = model({10, 10});
  twice.tensors[1].name = "0";
  EXPECT_REFUSAL(
      plan_buckets(twice, {all_of(twice, 1)}, 0, true), ConfigError,
      "Two parameters are called 0; residuals are kept by name, so names must differ.");
  const Layout huge = model({std::uint64_t{1} << 32});
  EXPECT_REFUSAL(plan_buckets(huge, {all_of(huge, 1)}, 0, true), ConfigError,
                 "The parameter 0 has 4294967296 coordinates; at most 4294967295 fit "
                 "into a bucket.");
  // Each fits, both together do not: two buckets even without a cap.
  const Layout large = model({std::uint64_t{3} << 30, std::uint64_t{3} << 30});
  EXPECT_EQ(plan_buckets(large, {all_of(large, 1)}, 0, true).size(), 2U);
}

TEST(PlanBuckets, PutsEveryParameterIntoOneBucketWithoutGaps) {
  EXPECT_TRUE(rc::check([] {
    Layout layout;
    std::map<double, DensityGroup> groups;
    const auto count = *rc::gen::inRange<std::size_t>(0, 20);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto size = *rc::gen::inRange<std::uint64_t>(1, 100);
      const double density = *rc::gen::element(0.01, 0.1, 1.0);
      layout.tensors.push_back({std::to_string(i), 999, {size}});
      groups[density].density = density;
      groups[density].tensors.push_back(i);
      total += size;
    }
    std::vector<DensityGroup> list;
    for (const auto& [density, group] : groups) list.push_back(group);
    const auto cap = *rc::gen::inRange<std::uint64_t>(0, 600);
    std::set<std::size_t> seen;
    for (const BucketPlan& plan : plan_buckets(layout, list, cap, true)) {
      std::uint64_t offset = 0;
      RC_ASSERT(plan.parameters.size() == plan.layout.tensors.size());
      for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
        RC_ASSERT(seen.insert(plan.parameters[i]).second);
        RC_ASSERT(plan.layout.tensors[i].offset == offset);
        RC_ASSERT(plan.layout.tensors[i].name == std::to_string(plan.parameters[i]));
        offset += plan.layout.tensors[i].size();
      }
      RC_ASSERT(plan.fused || cap == 0 || plan.parameters.size() == 1 ||
                offset * sizeof(float) <= cap);
      total -= offset;
    }
    RC_ASSERT(seen.size() == count);
    RC_ASSERT(total == 0U);
  }));
}

}  // namespace
}  // namespace topknot::engine

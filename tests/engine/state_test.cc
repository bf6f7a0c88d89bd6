// SPDX-License-Identifier: Apache-2.0
#include "engine/state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "engine/bucket.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::engine {
namespace {

using topknot::testing::run;

Layout two_tensors() { return {{{"a", 0, {20, 20}}, {"b", 400, {10, 10}}}}; }

std::vector<float> gradient(int rank, int step) {
  core::Random random(static_cast<std::uint64_t>(rank * 1000 + step));
  std::vector<float> x(500);
  for (float& value : x) value = random.laplace();
  return x;
}

TEST(State, RestoresEverySchemeBitForBit) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    run(3, [&](Transport& link) {
      const Layout layout = two_tensors();
      Bucket through(layout, Recipe::of(scheme.name), link, 1);
      Bucket before(layout, Recipe::of(scheme.name), link, 2);
      Bucket after(layout, Recipe::of(scheme.name), link, 3);
      std::vector<float> x;
      std::vector<float> y;
      for (int step = 0; step < 40; ++step) {
        x = y = gradient(link.rank(), step);
        through.step(x, 25, x);
        Bucket& other = step < 17 ? before : after;
        if (step == 17) {
          State state;
          before.save(state);
          after.load(state);
        }
        other.step(y, 25, y);
        ASSERT_EQ(x, y) << "step " << step;
      }
    });
  }
}

TEST(State, FollowsAParameterIntoAnotherBucket) {
  std::vector<float> values(500);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  State state;
  StateSaver(state, two_tensors(), "memory").coordinates("residual", values);
  const Layout only_b = {{{"b", 0, {10, 10}}, {"new", 100, {5}}}};
  std::vector<float> found(105, -1.0F);
  StateLoader(state, only_b, "memory").coordinates("residual", found);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(found[i], 400 + static_cast<float>(i));
  for (std::size_t i = 100; i < 105; ++i) EXPECT_EQ(found[i], 0);
}

TEST(State, RefusesAnotherModel) {
  std::vector<float> values(500);
  State state;
  StateSaver(state, two_tensors(), "memory").coordinates("residual", values);
  const Layout other = {{{"a", 0, {3}}}};
  std::vector<float> found(3);
  EXPECT_REFUSAL(StateLoader(state, other, "memory").coordinates("residual", found),
                 ConfigError,
                 "The state has 400 values at a/memory.residual where the model has 3.");
  std::int64_t count = 0;
  StateSaver(state, other, "compressor").field("x", count);
  float not_a_count = 0;
  EXPECT_REFUSAL(
      StateLoader(state, other, "compressor").field("x", not_a_count), ConfigError,
      "The state has something of another type at a/compressor.x: it is of another "
      "algorithm or version.");
}

TEST(State, OfVersion010HasTheResidualUnderAnotherName) {
  State state;
  std::vector<float> values(500, 7.0F);
  StateSaver(state, two_tensors(), "memory").coordinates("debt", values);
  std::vector<float> found(500);
  StateLoader(state, two_tensors(), "memory").coordinates("residual", found);
  EXPECT_EQ(found, values);
}

TEST(State, OfAMemoryGoesWithEveryTensorAndThatOfACompressorWithTheFirst) {
  State state;
  std::uint64_t steps = 5;
  double threshold = 0.5;
  StateSaver(state, two_tensors(), "memory").field("steps", steps);
  StateSaver(state, two_tensors(), "compressor").field("threshold", threshold);
  std::uint64_t of_second = 0;
  StateLoader(state, {{{"b", 0, {10, 10}}}}, "memory").field("steps", of_second);
  EXPECT_EQ(of_second, steps);
  state.values["c/memory.steps"] = std::uint64_t{7};
  const Layout other = {{{"b", 0, {10, 10}}, {"c", 100, {5}}}};
  std::uint64_t found = 0;
  double none = -1;
  StateLoader(state, other, "memory").field("steps", found);
  StateLoader(state, other, "compressor").field("threshold", none);
  EXPECT_EQ(found, 7U);
  EXPECT_EQ(none, -1);
}

}  // namespace
}  // namespace topknot::engine

// SPDX-License-Identifier: Apache-2.0
//
// What an engine keeps from step to step: through steps that are not applied, through a state that
// is saved, and when buckets are made anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "engine/small_model.h"
#include "ranks.h"
#include "topknot/catalog.h"
#include "topknot/engine.h"
#include "wild.h"

namespace topknot {
namespace {

using testing::draw_all;
using testing::means;
using testing::model;
using testing::options;
using testing::residual;
using testing::run;
using testing::step;

TEST(Engine, AppliesAStepOnAllRanksOrOnNoneAndLosesNothing) {
  for (const Scheme& scheme : schemes()) {
    if (scheme.memory != "residual") continue;
    SCOPED_TRACE(scheme.name);
    std::mutex mutex;
    // Of fc.weight, over all ranks: residual before + gradient, and residual after.
    std::vector<double> due(400);
    std::vector<double> left(400);
    run(4, [&](Transport& link) {
      Engine engine(link, model(), options(scheme.name));
      const auto add = [&](std::span<const float> x, std::vector<double>& sum) {
        const std::scoped_lock lock(mutex);
        for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
      };
      step(engine, link.rank(), 0);
      const std::vector<float> before = residual(engine, "fc.weight");
      const std::vector<float> second = residual(engine, "conv2.weight");
      const std::vector<float> third = residual(engine, "conv1.weight");
      ASSERT_EQ(before.size(), 400U);

      engine.begin();
      draw_all(engine, link.rank(), 1);
      add(before, due);
      add(engine.gradient(4), due);
      if (link.rank() == 2)
        engine.gradient(2)[7] = std::numeric_limits<float>::quiet_NaN();
      const StepReport report = engine.finish();
      EXPECT_FALSE(report.finite);
      EXPECT_TRUE(report.buckets[0].finite);
      EXPECT_FALSE(report.buckets[1].finite);
      EXPECT_FALSE(report.buckets[2].finite);
      EXPECT_GT(report.buckets[1].sent_messages, 0U);
      EXPECT_EQ(report.buckets[2].sent_messages, 0U);
      for (const float value : means(engine)) EXPECT_EQ(value, 0);
      add(residual(engine, "fc.weight"), left);
      EXPECT_EQ(residual(engine, "conv2.weight"), second);
      EXPECT_EQ(residual(engine, "conv1.weight"), third);
      EXPECT_TRUE(step(engine, link.rank(), 2).finite);
    });
    EXPECT_EQ(left, due);
  }
}

// Of floats of very different magnitudes: the bucket that is not finite and those behind it
// keep every bit of their residuals, and every bucket keeps those of its velocity.
TEST(Engine, LeavesResidualsAndVelocitiesOfARefusedStepBitForBit) {
  constexpr int kRanks = 3;
  for (const std::string_view scheme : {"knot", "topka", "dgc"})
    for (int nonfinite = 0; nonfinite < kRanks; ++nonfinite) {
      SCOPED_TRACE(std::string(scheme) + ", not finite on rank " +
                   std::to_string(nonfinite));
      run(kRanks, [&](Transport& link) {
        Engine engine(link, model(), options(scheme));
        const auto draw_wild = [&](std::uint64_t step) {
          engine.begin(0.1);
          for (std::size_t p = 0; p < model().tensors.size(); ++p)
            std::ranges::copy(testing::wild(engine.gradient(p).size(),
                                            step * 100 + p * 10 +
                                                static_cast<std::uint64_t>(link.rank())),
                              engine.gradient(p).begin());
        };
        draw_wild(1);
        ASSERT_TRUE(engine.finish().finite);
        State before;
        engine.save(before);
        draw_wild(2);
        if (link.rank() == nonfinite)
          engine.gradient(2)[7] = std::numeric_limits<float>::quiet_NaN();
        const StepReport report = engine.finish();
        ASSERT_FALSE(report.finite);
        ASSERT_TRUE(report.buckets[0].finite);
        State after;
        engine.save(after);
        int residuals = 0;
        int velocities = 0;
        for (const auto& [key, value] : before.values) {
          const auto* floats = std::get_if<std::vector<float>>(&value);
          if (floats == nullptr) continue;
          const bool velocity = key.ends_with("velocity");
          if (!velocity && !key.starts_with("conv"))
            continue;  // fc is in the bucket before
          velocity ? ++velocities : ++residuals;
          EXPECT_EQ(testing::bits_of(std::get<std::vector<float>>(after.values.at(key))),
                    testing::bits_of(*floats))
              << key;
        }
        EXPECT_GE(residuals, 2);
        EXPECT_EQ(velocities, scheme == "dgc" ? 6 : 0);
      });
    }
}

TEST(Engine, KeepsNoResidualWithTheMemoryNone) {
  run(2, [](Transport& link) {
    EngineOptions made = options("topka", 1700);
    made.memory = "none";
    Engine engine(link, model(), made);
    engine.begin();
    draw_all(engine, link.rank(), 0);
    engine.gradient(0)[0] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(engine.finish().finite);
    engine.begin();
    EXPECT_TRUE(engine.finish().finite);
    for (const float value : means(engine)) EXPECT_EQ(value, 0);
  });
}

TEST(Engine, ContinuesFromASavedStateBitForBitForEveryScheme) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    run(3, [&](Transport& link) {
      EngineOptions made = options(scheme.name);
      made.schedule = "exponential:stages=3,period=2";
      Engine engine(link, model(), made);
      for (std::uint64_t number = 0; number < 5; ++number)
        step(engine, link.rank(), number);
      State state;
      engine.save(state);
      made.channel = 1;
      Engine resumed(link, model(), made);
      resumed.load(state);
      EXPECT_EQ(resumed.steps(), 5U);
      for (std::uint64_t number = 5; number < 10; ++number) {
        EXPECT_EQ(step(engine, link.rank(), number).k_wanted,
                  step(resumed, link.rank(), number).k_wanted);
        EXPECT_EQ(means(engine), means(resumed));
      }
    });
  }
}

TEST(Engine, KeepsResidualsWhenBucketsAreMadeAnew) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    run(3, [&](Transport& link) {
      Engine engine(link, model(), options(scheme.name));
      for (std::uint64_t number = 0; number < 5; ++number)
        step(engine, link.rank(), number);
      State state;
      engine.save(state);
      EngineOptions made = options(scheme.name, 0);
      made.channel = 1;
      Engine other(link, model(), made);
      other.load(state);
      for (const TensorSlot& tensor : model().tensors)
        EXPECT_EQ(residual(other, tensor.name), residual(engine, tensor.name))
            << tensor.name;
      for (std::uint64_t number = 5; number < 10; ++number)
        EXPECT_TRUE(step(other, link.rank(), number).finite);
    });
  }
}

}  // namespace
}  // namespace topknot

// SPDX-License-Identifier: Apache-2.0
//
// An engine whose memory makes updates: what it gives, what settle() does, and the law over
// all of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/bucket.h"
#include "engine/small_model.h"
#include "ranks.h"
#include "topknot/engine.h"
#include "topknot/error.h"

namespace topknot {
namespace {

using testing::draw;
using testing::means;
using testing::model;
using testing::options;
using testing::run;
using testing::step;

/// The rank's own moves are its gradients: SGD without momentum at a rate of 1.
EngineOptions plain_updates(std::string_view scheme = "knot") {
  EngineOptions made = options(scheme);
  made.memory = "momentum:momentum=0";
  return made;
}

StepReport unit_step(Engine& engine, int rank, std::uint64_t number) {
  engine.begin(1);
  for (std::size_t p = model().tensors.size(); p-- > 0;) {
    draw(engine.gradient(p), rank, number, p);
    engine.ready(p);
  }
  return engine.finish();
}

void add(std::vector<double>& total, const std::vector<float>& x, double times) {
  total.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) total[i] += times * x[i];
}

std::vector<double> sum_of_gradients(int ranks, int steps) {
  std::vector<double> total;
  for (int rank = 0; rank < ranks; ++rank)
    for (int t = 0; t < steps; ++t) {
      std::vector<float> all;
      for (std::size_t p = 0; p < model().tensors.size(); ++p) {
        std::vector<float> one(model().tensors[p].size());
        draw(one, rank, static_cast<std::uint64_t>(t), p);
        all.insert(all.end(), one.begin(), one.end());
      }
      add(total, all, 1);
    }
  return total;
}

TEST(EngineOfUpdates, GivesUpdatesOfWhatIsSparseAndGradientsOfWhatIsSentWhole) {
  run(2, [](Transport& link) {
    Engine engine(link, model(), plain_updates());
    for (std::size_t p = 0; p < model().tensors.size(); ++p)
      EXPECT_EQ(engine.units(p),
                model().tensors[p].shape.size() > 1 ? Units::updates : Units::gradients);
    EXPECT_THROW(static_cast<void>(engine.units(6)), ContractError);
    Engine gradients(link, model(), [] {
      EngineOptions made = options("knot");
      made.channel = 7;
      return made;
    }());
    EXPECT_EQ(gradients.units(0), Units::gradients);
  });
}

TEST(EngineOfUpdates, LosesNothingWhenItSettles) {
  constexpr int kSteps = 5;
  for (const std::string scheme : {"knot", "oktopk", "gtopk", "exdyna", "topka"})
    for (int ranks = 1; ranks <= 9; ++ranks) {
      SCOPED_TRACE(scheme + " on " + std::to_string(ranks));
      run(ranks, [&](Transport& link) {
        Engine engine(link, model(), plain_updates(scheme));
        std::vector<double> applied;
        for (int t = 0; t < kSteps; ++t) {
          EXPECT_TRUE(
              unit_step(engine, link.rank(), static_cast<std::uint64_t>(t)).finite);
          add(applied, means(engine), ranks);
        }
        const StepReport settled = engine.settle();
        EXPECT_TRUE(settled.finite);
        EXPECT_EQ(settled.sent_bytes > 0, ranks > 1);
        add(applied, means(engine), ranks);
        const std::vector<double> expected = sum_of_gradients(ranks, kSteps);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(applied[i], expected[i], 1e-4) << i;
        engine.settle();  // there is nothing left
        for (const float left : means(engine)) EXPECT_EQ(left, 0.0F);
      });
    }
}

TEST(EngineOfUpdates, IsTheDenseOptimizerWhileEverythingIsSent) {
  // Until the first sparse step the gradient is reduced first: Adam of the mean.
  run(3, [](Transport& link) {
    EngineOptions made = options("knot");
    made.memory = "adam";
    made.schedule = "dense:steps=4";
    Engine engine(link, model(), made);
    const Layout layout = model();
    const auto adam =
        make_memory(Spec::parse("adam"), Layout::flat(layout.tensors[4].size()));
    for (std::uint64_t t = 0; t < 4; ++t) {
      ASSERT_TRUE(step(engine, link.rank(), t).finite);
      std::vector<float> mean(layout.tensors[4].size());
      for (int rank = 0; rank < 3; ++rank) {
        std::vector<float> one(mean.size());
        draw(one, rank, t, 4);
        for (std::size_t i = 0; i < one.size(); ++i) mean[i] += one[i];
      }
      for (float& m : mean) m /= 3;
      adam->before(mean, {.learning_rate = 0.1});
      adam->after({.count = mean.size(), .index = {}, .settled = {}});
      const auto moved = engine.gradient(4);
      EXPECT_EQ(std::vector<float>(moved.begin(), moved.end()), mean) << t;
    }
    ASSERT_TRUE(step(engine, link.rank(), 4).finite);
    EXPECT_LT(std::ranges::count_if(engine.gradient(4), [](float x) { return x != 0; }),
              static_cast<std::ptrdiff_t>(layout.tensors[4].size() / 2));
  });
}

TEST(EngineOfUpdates, LeavesEveryBucketAsItWasWhereTheResidualsOfOneOverflow) {
  for (const std::string memory : {"momentum", "adam"})
    run(2, [&](Transport& link) {
      EngineOptions made = options("knot");
      made.memory = memory;
      Engine engine(link, model(), made);
      for (std::uint64_t t = 0; t < 3; ++t)
        ASSERT_TRUE(step(engine, link.rank(), t).finite);
      State before;
      engine.save(before);
      auto& residual =
          std::get<std::vector<float>>(before.values.at("fc.weight/memory.residual"));
      residual[7] = 3e38F;  // on both ranks
      engine.load(before);
      EXPECT_FALSE(engine.settle().finite);
      for (const float left : means(engine)) EXPECT_EQ(left, 0.0F);
      State after;
      engine.save(after);
      EXPECT_EQ(after, before) << memory;
    });
}

TEST(EngineOfUpdates, SettlesNothingInTheMiddleOfAStep) {
  run(1, [](Transport& link) {
    Engine engine(link, model(), plain_updates());
    engine.begin(1);
    EXPECT_THROW(engine.settle(), ContractError);
    engine.finish();
  });
}

}  // namespace
}  // namespace topknot

// SPDX-License-Identifier: Apache-2.0
#include "topknot/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/select.h"
#include "engine/bucket.h"
#include "memory/memories.h"
#include "ranks.h"
#include "saved_state.h"
#include "topknot/catalog.h"
#include "wild.h"

namespace topknot {
namespace {

constexpr std::size_t kLength = 64;
constexpr std::size_t kSent = 6;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> gradient(int step) { return testing::gradient_of(step, kLength); }

std::vector<float> copy_of(std::span<const float> x) { return {x.begin(), x.end()}; }

constexpr std::uint32_t kTwo[] = {1, 5};

/// One step as a bucket takes it, alone: returns what was sent.
Sparse step(Memory& memory, std::vector<float> grad, double rate = 1,
            std::size_t k = kSent) {
  memory.before(grad, {.learning_rate = rate});
  const std::span<float> residual = memory.residual();
  if (!core::fold(residual, grad)) return {};
  Sparse sent;
  for (std::size_t i = 0; i < residual.size(); ++i)
    sent.push_back(static_cast<std::uint32_t>(i), residual[i]);
  core::keep_largest(sent, k);
  for (const std::uint32_t i : sent.index) residual[i] = 0;
  memory.after({.count = sent.size(), .index = sent.index, .settled = sent.index});
  return sent;
}

std::unique_ptr<Memory> make(const std::string& spec) {
  return testing::memory_of(spec, kLength);
}

TEST(EveryMemory, CarriesOnFromWhatItSaved) {
  for (const std::string spec :
       {"none", "residual", "residual:decay=0.9,lr=inside", "dgc", "dgc:nesterov=1",
        "momentum", "momentum:nesterov=1", "adam", "adam:correct=0,masking=0"}) {
    const auto one = make(spec);
    for (int t = 0; t < 5; ++t) step(*one, gradient(t), 1.0 / (1 + t));
    const auto two = make(spec);
    testing::copy_state(*one, *two);
    for (int t = 5; t < 10; ++t)
      EXPECT_EQ(step(*one, gradient(t), 0.1), step(*two, gradient(t), 0.1)) << spec;
  }
}

TEST(EveryMemory, LeavesNoTraceOfANonfiniteStep) {
  for (const std::string spec :
       {"none", "residual:decay=0.9", "residual:lr=inside", "dgc", "dgc:nesterov=1",
        "dgc:clip=2", "momentum", "momentum:nesterov=1"}) {
    const auto calm = make(spec);
    const auto shaken = make(spec);
    for (int t = 0; t < 12; ++t) {
      // The collective undoes its fold; what is left is what before() did.
      std::vector<float> here = gradient(100 + t);
      here[static_cast<std::size_t>(t)] = t % 2 == 0 ? kNan : INFINITY;
      shaken->before(here, {});
      std::vector<float> elsewhere = gradient(200 + t);
      shaken->before(elsewhere, {});
      EXPECT_EQ(step(*calm, gradient(t)), step(*shaken, gradient(t))) << spec;
      EXPECT_EQ(copy_of(calm->residual()), copy_of(shaken->residual())) << spec;
    }
  }
}

TEST(Residual, DecaysWithEveryStepThatGoesThrough) {
  const auto memory = make("residual:decay=0.5");
  std::vector<float> expected(kLength);
  for (int t = 0; t < 6; ++t) {
    const Sparse sent = step(*memory, gradient(t));
    const std::vector<float> g = gradient(t);
    for (std::size_t i = 0; i < kLength; ++i) expected[i] += g[i];
    for (const std::uint32_t i : sent.index) expected[i] = 0;
    for (float& x : expected) x *= 0.5F;
    EXPECT_EQ(copy_of(memory->residual()), expected);
  }
}

TEST(Residual, ScalesByTheRateAtWhichItWasAddedWithTheRateInside) {
  // Ok-Topk's Algorithm 2, where the residual is a step of the weights. Powers of two, so
  // that nothing is rounded.
  const auto memory = make("residual:lr=inside");
  std::vector<float> expected(kLength);
  const double rates[] = {1, 1, 0.5, 0.5, 0.125, 2, 2, 0.25};
  for (int t = 0; t < 8; ++t) {
    const std::vector<float> g = gradient(t);
    const auto rate = static_cast<float>(rates[t]);
    for (std::size_t i = 0; i < kLength; ++i) expected[i] += rate * g[i];
    const Sparse sent = step(*memory, g, rates[t]);
    ASSERT_EQ(sent.size(), kSent);
    for (std::size_t i = 0; i < kSent; ++i) {
      EXPECT_EQ(rate * sent.value[i], expected[sent.index[i]]);
      expected[sent.index[i]] = 0;
    }
  }
}

TEST(Residual, IgnoresTheRateWithTheRateOutside) {
  const auto one = make("residual");
  const auto two = make("residual");
  for (int t = 0; t < 6; ++t)
    EXPECT_EQ(step(*one, gradient(t), 1), step(*two, gradient(t), 1.0 / (1 + t)));
}

TEST(Residual, KeepsTheResidualWhenTheRateIsZero) {
  const auto memory = make("residual:lr=inside");
  step(*memory, gradient(0), 0.5);
  const std::vector<float> before = copy_of(memory->residual());
  std::vector<float> g(kLength);
  memory->before(g, {.learning_rate = 0});
  EXPECT_EQ(copy_of(memory->residual()), before);
  memory->before(g, {.learning_rate = 0.5});
  EXPECT_EQ(copy_of(memory->residual()), before);
}

/// Momentum correction and factor masking, as the paper writes them.
struct NaiveDgc {
  bool nesterov = false;
  bool masking = true;
  std::vector<float> u = std::vector<float>(kLength);
  std::vector<float> v = std::vector<float>(kLength);

  void add(const std::vector<float>& g) {
    for (std::size_t i = 0; i < kLength; ++i) {
      u[i] = nesterov ? 0.9F * (u[i] + g[i]) : 0.9F * u[i] + g[i];
      v[i] += nesterov ? u[i] + g[i] : u[i];
    }
  }
  void send(const Sparse& sent) {
    for (const std::uint32_t i : sent.index) {
      v[i] = 0;
      if (masking) u[i] = 0;
    }
  }
};

TEST(DgcMemory, IsMomentumCorrectionWithFactorMasking) {
  for (const bool nesterov : {false, true})
    for (const bool masking : {false, true}) {
      const auto memory = make("dgc:nesterov=" + std::to_string(nesterov) +
                               ",masking=" + std::to_string(masking));
      NaiveDgc naive{nesterov, masking};
      for (int t = 0; t < 20; ++t) {
        naive.add(gradient(t));
        const Sparse sent = step(*memory, gradient(t));
        for (std::size_t i = 0; i < kSent; ++i)
          EXPECT_EQ(sent.value[i], naive.v[sent.index[i]]);
        naive.send(sent);
        EXPECT_EQ(copy_of(memory->residual()), naive.v) << "step " << t;
      }
    }
}

TEST(EveryMemory, AddsTheMeanOfAStepThatIsNotAppliedUnlessItForgets) {
  for (const MemoryEntry& entry : memories()) {
    SCOPED_TRACE(entry.name);
    const auto memory = make(std::string(entry.name));
    step(*memory, gradient(1));
    std::vector<float> expected = copy_of(memory->residual());
    const std::vector<float> mean = gradient(2);
    if (entry.name != "none")
      for (std::size_t i = 0; i < kLength; ++i) expected[i] += mean[i];
    memory->undo_sum({}, mean);
    EXPECT_EQ(copy_of(memory->residual()), expected);
    const std::map<std::string_view, std::size_t> vectors = {
        {"none", 1}, {"residual", 1}, {"dgc", 3}, {"momentum", 3}, {"adam", 4}};
    EXPECT_EQ(memory->bytes(), vectors.at(entry.name) * kLength * sizeof(float));
  }
}

TEST(EveryMemory, AddsTheMeanWhereItHasCoordinatesAndLeavesEveryOtherBit) {
  for (const MemoryEntry& entry : memories()) {
    if (entry.name == "none") continue;
    SCOPED_TRACE(entry.name);
    const auto memory = make(std::string(entry.name));
    const std::vector<float> before = testing::wild(kLength, 3);
    std::ranges::copy(before, memory->residual().begin());
    memory->residual()[1] = -0.0F;
    memory->residual()[4] = std::numeric_limits<float>::max();
    const std::vector<std::uint32_t> index = {2, 4};
    memory->undo_sum(index, std::vector<float>{1e9F, std::numeric_limits<float>::max()});
    std::vector<float> expected = before;
    expected[1] = -0.0F;
    expected[2] = before[2] + 1e9F;
    expected[4] =
        std::numeric_limits<float>::max();  // infinity would spoil all that follows
    EXPECT_EQ(testing::bits_of(memory->residual()), testing::bits_of(expected));
  }
}

TEST(EveryMemory, StepsBackToTheBitsItHad) {
  for (const std::string spec :
       {"residual:decay=0.9", "residual:decay=0.9,lr=inside", "dgc",
        "dgc:nesterov=1,clip=2", "dgc:masking=0", "momentum", "momentum:nesterov=1"}) {
    const auto calm = make(spec);
    const auto shaken = make(spec);
    for (std::uint64_t t = 0; t < 8; ++t) {
      const auto drawn = testing::wild(kLength, t);
      EXPECT_EQ(step(*calm, drawn), step(*shaken, drawn)) << spec;
      // A step that goes through with nothing settled and everything undone.
      const std::vector<float> before = copy_of(shaken->residual());
      std::vector<float> refused = testing::wild(kLength, 100 + t);
      shaken->before(refused, {});
      shaken->after({.count = 2, .index = kTwo, .settled = kTwo});
      shaken->undo_step();
      EXPECT_EQ(testing::bits_of(shaken->residual()), testing::bits_of(before)) << spec;
    }
  }
}

TEST(DgcMemory, ClipsTheGradientToItsLength) {
  const auto clipped = make("dgc:clip=0.5");
  std::vector<float> g = gradient(1);
  double before = 0;
  for (const float value : g) before += static_cast<double>(value) * value;
  const std::vector<float> given = g;
  clipped->before(g, {});
  for (std::size_t i = 0; i < kLength; ++i)
    EXPECT_FLOAT_EQ(g[i], static_cast<float>(0.5 / std::sqrt(before)) * given[i]);

  std::vector<float> small(kLength, 0.01F);
  const auto other = make("dgc:clip=0.5");
  other->before(small, {});
  EXPECT_EQ(small, std::vector<float>(kLength, 0.01F));
}

TEST(DgcMemory, IsPlainMomentumWhereEverythingIsSettled) {
  const auto memory = make("dgc");
  std::vector<float> velocity(kLength);
  for (int t = 0; t < 5; ++t) {
    const Sparse sent = step(*memory, gradient(t), 1, kLength);
    for (std::size_t i = 0; i < kLength; ++i)
      velocity[i] = 0.9F * velocity[i] + gradient(t)[i];
    EXPECT_EQ(sent.value, velocity);
  }
}

TEST(DgcMemory, IsAtWorkInADenseBucketToo) {
  testing::run(2, [](Transport& link) {
    engine::Recipe recipe = engine::Recipe::of("dense");
    recipe.memory = Spec::parse("dgc:momentum=0.5");
    engine::Bucket bucket(Layout::flat(4), recipe, link, 0);
    float velocity = 0;
    for (int t = 0; t < 4; ++t) {
      std::vector<float> g(4, link.rank() == 0 ? 2.0F : 6.0F);
      bucket.step(g, 1, g);
      velocity = 0.5F * velocity + 4;
      EXPECT_EQ(g, std::vector<float>(4, velocity));
    }
  });
}

TEST(DgcMemory, MasksNothingWhereEverythingIsSentAndSomeOfItIsZero) {
  testing::run(2, [](Transport& link) {
    engine::Recipe recipe = engine::Recipe::of("topka");
    recipe.memory = Spec::parse("dgc:momentum=0.5");
    engine::Bucket bucket(Layout::flat(4), recipe, link, 0);
    float velocity = 0;
    for (int t = 0; t < 4; ++t) {
      std::vector<float> g = {2, 2, 2, 0};
      bucket.step(g, 4, g);
      velocity = 0.5F * velocity + 2;
      EXPECT_EQ(g, (std::vector<float>{velocity, velocity, velocity, 0}));
    }
  });
}

}  // namespace
}  // namespace topknot

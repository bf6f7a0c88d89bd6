// SPDX-License-Identifier: Apache-2.0
//
// The memories that take an optimizer's step on each rank's own gradient.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "memory/memories.h"
#include "topknot/catalog.h"

namespace topknot {
namespace {

constexpr std::size_t kLength = 48;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> gradient(int step) { return testing::gradient_of(step, kLength); }

std::unique_ptr<Memory> make(const std::string& spec) {
  return testing::memory_of(spec, kLength);
}

/// The move that a memory makes of a gradient.
std::vector<float> move(Memory& memory, std::vector<float> grad, double rate,
                        int ranks = 1) {
  memory.before(grad, {.learning_rate = rate, .ranks = ranks});
  return grad;
}

void settle(Memory& memory, std::vector<std::uint32_t> where) {
  memory.after({.count = where.size(), .index = where, .settled = where});
}

std::vector<std::uint32_t> everywhere() {
  std::vector<std::uint32_t> all(kLength);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// SGD with momentum and Adam, one coordinate, as their papers write them.
struct NaiveSgd {
  float momentum = 0.9F;
  bool nesterov = false;
  float u = 0;
  float step(float g, float rate) {
    u = momentum * u + g;
    return rate * (nesterov ? g + momentum * u : u);
  }
};
struct NaiveAdam {
  float m = 0;
  float v = 0;
  int t = 0;
  float step(float g, double rate) {
    ++t;
    const float beta1 = 0.9F;
    const float beta2 = 0.999F;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    return static_cast<float>(rate / (1 - std::pow(0.9, t)) * m /
                              (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8));
  }
};

TEST(UpdateMemories, SayThatTheyMakeUpdates) {
  for (const MemoryEntry& entry : memories()) {
    const bool updates = entry.name == "momentum" || entry.name == "adam";
    EXPECT_EQ(make(std::string(entry.name))->units(),
              updates ? Units::updates : Units::gradients)
        << entry.name;
  }
}

TEST(MomentumMemory, TakesTheStepsOfSgdWhereAllIsSettled) {
  for (const bool nesterov : {false, true}) {
    const auto memory = make("momentum:nesterov=" + std::to_string(nesterov));
    std::vector<NaiveSgd> naive(kLength, {.nesterov = nesterov});
    for (int t = 0; t < 10; ++t) {
      const double rate = 1.0 / (1 + t);
      const std::vector<float> moved = move(*memory, gradient(t), rate);
      for (std::size_t i = 0; i < kLength; ++i)
        EXPECT_EQ(moved[i], naive[i].step(gradient(t)[i], static_cast<float>(rate)));
      settle(*memory, everywhere());
    }
  }
}

TEST(MomentumMemory, StartsAfreshWhereItsResidualWasSettledAndOnlyThere) {
  const auto memory = make("momentum");
  std::vector<NaiveSgd> naive(kLength);
  for (int t = 0; t < 12; ++t) {
    const std::vector<float> moved = move(*memory, gradient(t), 0.5);
    for (std::size_t i = 0; i < kLength; ++i)
      EXPECT_EQ(moved[i], naive[i].step(gradient(t)[i], 0.5F)) << t << " " << i;
    const std::vector<std::uint32_t> some = {static_cast<std::uint32_t>(t),
                                             static_cast<std::uint32_t>(20 + t)};
    settle(*memory, some);
    for (const std::uint32_t i : some) naive[i].u = 0;
  }
}

TEST(MomentumMemory, DoesNotMaskWhenToldSo) {
  const auto memory = make("momentum:masking=0");
  move(*memory, gradient(0), 1);
  settle(*memory, {3});
  const float first = gradient(0)[3];
  EXPECT_EQ(move(*memory, std::vector<float>(kLength), 1)[3], 0.9F * first);
}

TEST(UpdateMemories, DoNotMaskWhereCoordinatesWaitNoLongerThanTheMomentLasts) {
  for (const std::string spec : {"momentum", "adam"})
    for (const std::uint32_t settled : {4U, 5U}) {  // of 48: every 12 steps, every 9.6
      const auto memory = make(spec);
      move(*memory, gradient(0), 1);
      std::vector<std::uint32_t> some(settled);
      std::iota(some.begin(), some.end(), 1U);
      settle(*memory, some);
      const bool masked = move(*memory, std::vector<float>(kLength), 1)[2] == 0;
      EXPECT_EQ(masked, settled == 4) << spec;
    }
}

TEST(AdamMemory, TakesTheStepsOfAdamWhereAllIsSettled) {
  const auto memory = make("adam");
  std::vector<NaiveAdam> naive(kLength);
  for (int t = 0; t < 10; ++t) {
    const std::vector<float> moved = move(*memory, gradient(t), 0.01);
    for (std::size_t i = 0; i < kLength; ++i) {
      const float expected = naive[i].step(gradient(t)[i], 0.01);
      EXPECT_NEAR(moved[i], expected, 1e-5F * std::abs(expected));
    }
    settle(*memory, everywhere());
  }
}

TEST(AdamMemory, KeepsTheMeanWhereItsResidualWasSettledIfToldSo) {
  const auto memory = make("adam:masking=0");
  const auto masking = make("adam");
  for (Memory* one : {memory.get(), masking.get()}) {
    move(*one, gradient(0), 1);
    settle(*one, {7});
  }
  const std::vector<float> none(kLength);
  EXPECT_NE(move(*memory, none, 1)[7], 0.0F);
  EXPECT_EQ(move(*masking, none, 1)[7], 0.0F);
}

TEST(AdamMemory, ForgetsTheMeanButNotTheSquaresWhereItsResidualWasSettled) {
  const auto memory = make("adam:correct=0,eps=0");
  move(*memory, gradient(0), 1);
  settle(*memory, {7});
  // Without a new gradient a move is rate * beta1 m / sqrt(beta2 v).
  const std::vector<float> moved = move(*memory, std::vector<float>(kLength), 1);
  EXPECT_EQ(moved[7], 0.0F);
  EXPECT_NE(moved[8], 0.0F);
  std::vector<float> again(kLength);
  again[7] = gradient(0)[7];
  settle(*memory, {});
  const auto fresh = make("adam:correct=0,eps=0");
  EXPECT_LT(std::abs(move(*memory, again, 1)[7]), std::abs(move(*fresh, again, 1)[7]));
}

TEST(AdamMemory, MakesUpForTheNoiseOfOneRanksSquares) {
  const auto one = make("adam");
  const auto four = make("adam");
  const auto plain = make("adam:gain=none");
  const std::vector<float> alone = move(*one, gradient(1), 0.01);
  const std::vector<float> among = move(*four, gradient(1), 0.01, 4);
  EXPECT_EQ(move(*plain, gradient(1), 0.01, 4), alone);
  for (std::size_t i = 0; i < kLength; ++i) EXPECT_FLOAT_EQ(among[i], 2 * alone[i]);
}

TEST(AdamMemory, TakesAStepThatIsNonfiniteIntoItsSquaresAtMost) {
  const auto memory = make("adam");
  move(*memory, gradient(0), 1);
  settle(*memory, everywhere());
  for (const float bad : {kNan, INFINITY, 1e30F}) {
    std::vector<float> grad = gradient(1);
    grad[5] = bad;
    const std::vector<float> moved = move(*memory, grad, 1);
    EXPECT_FALSE(std::isfinite(moved[5]));
    EXPECT_TRUE(std::isfinite(moved[4]));
  }
  const std::vector<float> moved = move(*memory, gradient(2), 1);
  for (const float m : moved) EXPECT_TRUE(std::isfinite(m));
  // The mean has seen gradients 0 and 2 only.
  NaiveAdam naive;
  naive.step(gradient(0)[5], 1);
  EXPECT_FLOAT_EQ(moved[5], naive.step(gradient(2)[5], 1));
}

}  // namespace
}  // namespace topknot

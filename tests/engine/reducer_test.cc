// SPDX-License-Identifier: Apache-2.0
#include "engine/reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>

#include "engine/small_model.h"
#include "ranks.h"
#include "topknot/error.h"
#include "wild.h"

namespace topknot::engine {
namespace {

using testing::draw;
using testing::model;
using testing::options;
using testing::run;
using testing::run_to_the_end;

/// Parameters [first, last) of the model as one vector.
Layout bucket(std::size_t first, std::size_t last) {
  const Layout whole = model();
  Layout layout;
  for (std::size_t p = first; p < last; ++p) {
    const TensorSlot& tensor = whole.tensors[p];
    layout.tensors.push_back({tensor.name, layout.size(), tensor.shape});
  }
  return layout;
}

std::vector<float> drawn(const Layout& layout, std::size_t first, int rank,
                         std::uint64_t step) {
  std::vector<float> x(layout.size());
  for (std::size_t i = 0; i < layout.tensors.size(); ++i)
    draw(std::span(x).subspan(layout.tensors[i].offset, layout.tensors[i].size()), rank,
         step, first + i);
  return x;
}

Reducer::Source from(std::vector<float>& x) {
  return [&x] { return std::span<float>(x); };
}

std::vector<float> residual(Reducer& reducer, const std::string& parameter) {
  State state;
  reducer.save(state);
  const auto found = state.values.find(parameter + "/memory.residual");
  return found == state.values.end() ? std::vector<float>()
                                     : std::get<std::vector<float>>(found->second);
}

/// What all ranks have in the residuals of a vector of this layout, parameter by parameter;
/// zeros where a parameter has none.
std::vector<float> residuals(Reducer& reducer, const Layout& layout) {
  std::vector<float> all;
  for (const TensorSlot& tensor : layout.tensors) {
    std::vector<float> own = residual(reducer, tensor.name);
    own.resize(tensor.size());
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

/// Adds up over ranks that call in turn.
class Sum {
 public:
  void add(std::span<const float> x) {
    const std::scoped_lock lock(mutex_);
    total_.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) total_[i] += x[i];
  }
  const std::vector<float>& total() const { return total_; }

 private:
  std::mutex mutex_;
  std::vector<float> total_;
};

TEST(Reducer, LosesNothingOfAVectorOfSeveralDensities) {
  for (const char* scheme : {"knot", "oktopk", "gtopk", "topka", "spardl", "dense"})
    for (int ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(std::string(scheme) + " on " + std::to_string(ranks));
      constexpr std::uint64_t kSteps = 5;
      Sum gradients;
      Sum left;
      std::vector<float> applied;
      run(ranks, [&](Transport& link) {
        EngineOptions several = options(scheme);
        several.rules = {"conv2.*=0.3"};
        Reducer reducer(link, several, 0);
        const Layout layout = bucket(0, 6);
        const int slot = reducer.add_slot(layout);
        std::vector<float> sum(layout.size());
        for (std::uint64_t step = 0; step < kSteps; ++step) {
          std::vector<float> x = drawn(layout, 0, link.rank(), step);
          gradients.add(x);
          reducer.submit(slot, from(x));
          reducer.end_step();
          EXPECT_TRUE(reducer.take_report().finite);
          for (std::size_t i = 0; i < x.size(); ++i)
            sum[i] += std::round(x[i] * static_cast<float>(ranks));
        }
        left.add(residuals(reducer, layout));
        if (link.rank() == 0) applied = sum;
      });
      for (std::size_t i = 0; i < applied.size(); ++i)
        ASSERT_EQ(applied[i] + left.total()[i], gradients.total()[i]) << i;
    }
}

TEST(Reducer, UndoesTheSlotsBeforeANonfiniteOneAndLeavesOutThoseBehind) {
  Sum gradients;
  Sum before;
  Sum after;
  run(2, [&](Transport& link) {  // so that a mean of whole numbers is exact
    EngineOptions one = options("knot");
    one.dense_vectors = false;
    Reducer reducer(link, one, 0);
    const std::vector<std::size_t> first = {0, 2, 4};
    std::vector<Layout> layouts;
    std::vector<int> slots;
    for (const std::size_t p : first) {
      layouts.push_back(bucket(p, p + 2));
      slots.push_back(reducer.add_slot(layouts.back()));
    }
    const auto step = [&](std::uint64_t number, bool poisoned) {
      std::vector<std::vector<float>> x;
      std::vector<bool> finite;
      for (std::size_t b = 0; b < slots.size(); ++b)
        x.push_back(drawn(layouts[b], first[b], link.rank(), number));
      if (number == 1) gradients.add(x[0]);
      if (poisoned && link.rank() == 1) x[1][3] = std::numeric_limits<float>::infinity();
      for (std::size_t b = 0; b < slots.size(); ++b)
        reducer.submit(slots[b], from(x[b]), [&](const Reducer::Result& result) {
          finite.push_back(result.finite);
        });
      reducer.end_step();
      const StepReport report = reducer.take_report();
      EXPECT_EQ(report.finite, !poisoned);
      EXPECT_EQ(report.buckets.size(), 3U);
      EXPECT_EQ(report.buckets[2].sent_bytes == 0, poisoned);
      return finite;
    };
    step(0, false);
    before.add(residuals(reducer, layouts[0]));
    const auto second = testing::bits_of(residuals(reducer, layouts[1]));
    const auto third = testing::bits_of(residuals(reducer, layouts[2]));
    EXPECT_EQ(step(1, true), (std::vector<bool>{true, false, false}));
    after.add(residuals(reducer, layouts[0]));
    EXPECT_EQ(testing::bits_of(residuals(reducer, layouts[1])), second);
    EXPECT_EQ(testing::bits_of(residuals(reducer, layouts[2])), third);
    EXPECT_EQ(step(2, false), (std::vector<bool>{true, true, true}));
    EXPECT_EQ(reducer.step(), 3U);
  });
  for (std::size_t i = 0; i < after.total().size(); ++i)
    ASSERT_EQ(after.total()[i], before.total()[i] + gradients.total()[i]) << i;
}

TEST(Reducer, UndoesNoEarlierStepOfASlotThatWasSentWhole) {
  run(2, [](Transport& link) {
    Reducer reducer(link, options("knot"), 0);
    const Layout layout = bucket(0, 1);
    const int slot = reducer.add_slot(layout);
    std::vector<float> x = drawn(layout, 0, link.rank(), 0);
    reducer.submit(slot, from(x));
    reducer.end_step();
    const auto before = testing::bits_of(residuals(reducer, layout));
    std::vector<float> finite = drawn(layout, 0, link.rank(), 1);
    std::vector<float> poisoned = finite;
    poisoned[0] = std::numeric_limits<float>::quiet_NaN();
    reducer.submit(slot, from(finite), {}, Reducer::Mode::whole);
    reducer.submit(slot, from(poisoned), {}, Reducer::Mode::whole);
    reducer.end_step();
    EXPECT_FALSE(reducer.take_report().finite);
    EXPECT_EQ(testing::bits_of(residuals(reducer, layout)), before);
  });
}

TEST(Reducer, CarriesTheStateOfRemovedSlotsByParameter) {
  run(3, [](Transport& link) {
    Reducer cut_anew(link, options("knot"), 0);
    auto other = link.channel(1000);
    Reducer kept(*other, options("knot"), 0);
    const Layout layout = bucket(0, 3);
    const int slot = kept.add_slot(layout);
    const int old_slot = cut_anew.add_slot(layout);
    for (Reducer* reducer : {&kept, &cut_anew}) {
      std::vector<float> x = drawn(layout, 0, link.rank(), 0);
      reducer->submit(reducer == &kept ? slot : old_slot, from(x));
      reducer->end_step();
      reducer->wait();
    }
    cut_anew.remove_slots({old_slot});
    const auto expected = residuals(kept, layout);
    EXPECT_EQ(residuals(cut_anew, layout), expected);  // while no slot has taken it
    cut_anew.add_slot(bucket(2, 3));
    cut_anew.add_slot(bucket(0, 2));
    EXPECT_EQ(residuals(cut_anew, layout), expected);
    EXPECT_EQ(cut_anew.removed_totals().steps, 1U);
    EXPECT_EQ(cut_anew.totals().size(), 2U);
  });
}

TEST(Reducer, RefusesToRemoveASlotInTheMiddleOfItsStep) {
  run(1, [](Transport& link) {
    Reducer reducer(link, options("knot"), 0);
    const Layout layout = bucket(0, 1);
    const int used = reducer.add_slot(layout);
    const int unused = reducer.add_slot(bucket(1, 2));
    std::vector<float> x = drawn(layout, 0, 0, 0);
    reducer.submit(used, from(x));
    reducer.remove_slots({unused});
    reducer.wait();
    reducer.remove_slots({used});
    EXPECT_THROW(reducer.wait(), ContractError);
  });
}

TEST(Reducer, TellsEverySubmitterOfAFailureAndKeepsTheState) {
  const auto errors = run_to_the_end(
      2,
      [](Transport& link) {
        Reducer reducer(link, options("knot"), 0);
        const Layout layout = bucket(0, 1);
        const int slot = reducer.add_slot(layout);
        reducer.wait();
        if (link.rank() == 1) return;  // and never answers
        std::vector<float> x = drawn(layout, 0, 0, 0);
        int told = 0;
        for (int i = 0; i < 3; ++i)
          reducer.submit(slot, from(x), [&](const Reducer::Result& result) {
            told += result.error ? 1 : 0;
            EXPECT_FALSE(result.finite);
          });
        reducer.end_step();
        EXPECT_THROW(reducer.wait(), LinkError);
        EXPECT_THROW(reducer.wait(), LinkError);
        EXPECT_EQ(told, 3);
        EXPECT_EQ(reducer.step(), 0U) << "the step did not come to its end";
        EXPECT_EQ(residuals(reducer, layout).size(), layout.size());
      },
      {.timeout = 0.5});
  for (const auto& error : errors) EXPECT_FALSE(error);
}

TEST(Reducer, RefusesAVectorOfAnotherLength) {
  run(1, [](Transport& link) {
    Reducer reducer(link, options("knot"), 0);
    std::vector<float> x(3);
    reducer.submit(reducer.add_slot(bucket(0, 1)), from(x));
    EXPECT_THROW(reducer.wait(), ConfigError);
  });
}

TEST(Reducer, HandsTheLearningRateToTheMemory) {
  run(2, [](Transport& link) {
    EngineOptions inside = options("topka");
    inside.memory = "residual:lr=inside";
    Reducer reducer(link, inside, 0);
    const Layout layout = bucket(0, 1);
    const int slot = reducer.add_slot(layout);
    for (std::uint64_t number = 0; number < 2; ++number) {
      reducer.set_learning_rate(number == 0 ? 0.4 : 0.1);
      std::vector<float> x = drawn(layout, 0, link.rank(), number);
      reducer.submit(slot, from(x));
      reducer.end_step();
      reducer.wait();
    }
    // A residual that was added at 0.4 counts four times as much at 0.1.
    const std::vector<float> at_low_rate = residuals(reducer, layout);
    reducer.set_learning_rate(0.4);
    std::vector<float> nothing(layout.size());
    reducer.submit(slot, from(nothing));
    reducer.end_step();
    reducer.wait();
    std::size_t scaled = 0;
    const std::vector<float> at_high_rate = residuals(reducer, layout);
    for (std::size_t i = 0; i < at_low_rate.size(); ++i) {
      if (at_high_rate[i] == 0) continue;
      EXPECT_FLOAT_EQ(at_high_rate[i], at_low_rate[i] / 4);
      ++scaled;
    }
    EXPECT_GT(scaled, layout.size() / 2);
  });
}

TEST(Reducer, TakesTensorsWithoutCoordinates) {
  run(2, [](Transport& link) {
    for (const char* scheme : {"knot", "dgc"}) {
      auto own = link.channel(scheme[0]);
      Reducer reducer(*own, options(scheme), 0);
      const Layout some{{{"weight", 0, {20, 20}}, {"empty", 400, {0}}}};
      const Layout none{{{"nothing", 0, {0}}}};
      const int slot = reducer.add_slot(some);
      const int empty = reducer.add_slot(none);
      std::vector<float> x(400, 1.0F + static_cast<float>(link.rank()));
      std::vector<float> y;
      reducer.submit(slot, from(x));
      reducer.submit(empty, from(y));
      reducer.end_step();
      EXPECT_TRUE(reducer.take_report().finite);
      EXPECT_EQ(std::ranges::count(x, 1.5F), 40) << scheme;
    }
  });
}

TEST(Reducer, KeepsTheStateOfNamesThatBeginAlike) {
  run(2, [](Transport& link) {
    Reducer before(link, options("topka"), 0);
    auto other = link.channel(1000);
    Reducer after(*other, options("topka"), 0);
    const Layout a{{{"a", 0, {10, 10}}}};
    const Layout ab{{{"a/b", 0, {10, 10}}}};
    for (const Layout& layout : {a, ab}) {
      std::vector<float> x = drawn(layout, 0, link.rank(), 0);
      draw(x, link.rank(), 1, 2);
      const int slot = before.add_slot(layout);
      before.submit(slot, from(x));
      before.end_step();
      before.wait();
    }
    State state;
    before.save(state);
    after.load(state, 1);
    after.add_slot(a);
    after.add_slot(ab);
    EXPECT_EQ(residuals(after, a), residuals(before, a));
    EXPECT_EQ(residuals(after, ab), residuals(before, ab));
    EXPECT_NE(residuals(after, ab), std::vector<float>(100));
  });
}

TEST(Reducer, LeavesEverythingAsItWasWhereAStateDoesNotFit) {
  run(1, [](Transport& link) {
    Reducer reducer(link, options("topka"), 0);
    std::vector<float> first = drawn(bucket(0, 1), 0, 0, 0);
    std::vector<float> second = drawn(bucket(2, 3), 2, 0, 0);
    reducer.submit(reducer.add_slot(bucket(0, 1)), from(first));
    reducer.submit(reducer.add_slot(bucket(2, 3)), from(second));
    reducer.end_step();
    State before;
    reducer.save(before);
    State wrong = before;
    for (auto& [key, value] : wrong.values)
      if (auto* list = std::get_if<std::vector<float>>(&value)) {
        std::ranges::fill(*list, 7.0F);
        if (key.starts_with("conv2.weight")) list->pop_back();
      }
    EXPECT_THROW(reducer.load(wrong, 9), ConfigError);
    State after;
    reducer.save(after);
    EXPECT_EQ(after, before);
    EXPECT_EQ(reducer.step(), 1U);
  });
}

}  // namespace
}  // namespace topknot::engine

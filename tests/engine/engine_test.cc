// SPDX-License-Identifier: Apache-2.0
#include "topknot/engine.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>

#include "core/random.h"
#include "engine/bucket.h"
#include "engine/small_model.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/error.h"
#include "topknot/schedule.h"
#include "wild.h"

namespace topknot {
namespace {

using testing::draw;
using testing::draw_all;
using testing::means;
using testing::model;
using testing::options;
using testing::run;
using testing::run_to_the_end;
using testing::step;

std::vector<float> residual(Engine& engine, const std::string& parameter) {
  State state;
  engine.save(state);
  const auto found = state.values.find(parameter + "/memory.residual");
  return found == state.values.end() ? std::vector<float>()
                                     : std::get<std::vector<float>>(found->second);
}

TEST(Engine, DoesWhatItsBucketsDoForEveryScheme) {
  for (const Scheme& scheme : schemes())
    for (int ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(std::string(scheme.name) + " on " + std::to_string(ranks));
      run(ranks, [&](Transport& link) {
        Engine engine(link, model(), options(scheme.name));
        const bool dense = scheme.collective.starts_with("dense");
        const auto& layouts = engine.buckets();
        ASSERT_EQ(layouts.size(), dense ? 3U : 4U);
        std::vector<std::unique_ptr<engine::Bucket>> buckets;
        for (const Layout& layout : layouts) {
          engine::Recipe recipe = engine::Recipe::of(scheme.name);
          if (!dense && &layout == &layouts.back()) {
            recipe.collective = Spec::parse("dense");
            recipe.compressor = Spec::parse("topk");
          }
          buckets.push_back(std::make_unique<engine::Bucket>(
              layout, recipe, link, 100 + static_cast<int>(buckets.size())));
        }
        for (std::uint64_t number = 0; number < 4; ++number) {
          const StepReport report = step(engine, link.rank(), number);
          EXPECT_TRUE(report.finite);
          EXPECT_EQ(report.step, number);
          std::uint64_t sent = 0;
          for (std::size_t b = 0; b < layouts.size(); ++b) {
            std::vector<float> x(layouts[b].size());
            std::vector<std::size_t> inside;
            for (const TensorSlot& tensor : layouts[b].tensors) {
              const Layout whole = model();
              const auto p = static_cast<std::size_t>(
                  std::ranges::find(whole.tensors, tensor.name, &TensorSlot::name) -
                  whole.tensors.begin());
              inside.push_back(p);
              draw(std::span(x).subspan(tensor.offset, tensor.size()), link.rank(),
                   number, p);
            }
            const bool last = !dense && b + 1 == layouts.size();
            const double density = last || dense ? 1 : 0.1;
            const std::uint64_t k = coordinates_for(x.size(), density);
            sent += buckets[b]->step(x, k, x, 0.1, density).sent_bytes;
            EXPECT_EQ(report.buckets[b].k_wanted, k);
            for (std::size_t i = 0; i < inside.size(); ++i) {
              const TensorSlot& tensor = layouts[b].tensors[i];
              const auto mean = engine.gradient(inside[i]);
              EXPECT_TRUE(std::equal(mean.begin(), mean.end(),
                                     x.begin() + static_cast<long>(tensor.offset)))
                  << tensor.name;
            }
          }
          EXPECT_EQ(report.sent_bytes, sent);
        }
      });
    }
}

TEST(Engine, GivesTheSameBitsInWhateverOrderGradientsComeOnWhicheverRank) {
  run(4, [](Transport& link) {
    EngineOptions second = options("knot");
    second.channel = 1;
    Engine expected(link, model(), options("knot"));
    Engine engine(link, model(), second);
    core::Random random(static_cast<std::uint64_t>(link.rank()));
    std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
    for (std::uint64_t number = 0; number < 20; ++number) {
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.bits() % i]);
      step(expected, link.rank(), number);
      step(engine, link.rank(), number, order);
      EXPECT_EQ(means(engine), means(expected));
    }
  });
}

TEST(Engine, TakesWhatNeverBecameReadyAsItIs) {
  run(2, [](Transport& link) {
    Engine engine(link, model(), options("dense"));
    step(engine, link.rank(), 0);
    // conv1.weight is unused on all ranks, conv2.weight on one; fc.bias is only written.
    engine.begin();
    if (link.rank() == 0) {
      std::ranges::fill(engine.gradient(2), 4.0F);
      engine.ready(2);
    }
    std::ranges::fill(engine.gradient(5), 3.0F);
    engine.finish();
    for (const float value : engine.gradient(0)) EXPECT_EQ(value, 0);
    for (const float value : engine.gradient(2)) EXPECT_EQ(value, 2);
    for (const float value : engine.gradient(5)) EXPECT_EQ(value, 3);
  });
}

TEST(Engine, KeepsGradientsInPlaceAlignedByBucket) {
  run(1, [](Transport& link) {
    Engine engine(link, model(), options("knot", 0));
    ASSERT_EQ(engine.buckets().size(), 2U);
    float* const first = engine.gradient(0).data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(engine.gradient(1).data()) % 64, 0U);
    EXPECT_EQ(engine.gradient(2).data(), first + 8 * 27);
    step(engine, 0, 0);
    EXPECT_EQ(engine.gradient(0).data(), first);
  });
}

TEST(Engine, ObeysRulesAndOverrides) {
  run(2, [](Transport& link) {
    EngineOptions made = options("oktopk", 0);
    made.rules = {"fc.*=dense", "conv2*=0.5"};
    made.collective = "topka";
    made.compressor = "topk";
    made.dense_vectors = false;
    Engine engine(link, model(), made);
    ASSERT_EQ(engine.buckets().size(), 3U);
    EXPECT_EQ(engine.buckets()[0].tensors.front().name, "conv2.weight");
    EXPECT_EQ(engine.buckets()[2].tensors.front().name, "fc.weight");
    const StepReport report = step(engine, link.rank(), 0);
    EXPECT_EQ(report.buckets[0].k_selected, 192U);
    EXPECT_EQ(report.buckets[1].k_selected, 24U);
    EXPECT_EQ(report.buckets[2].count, 410U);
    EXPECT_EQ(report.k_wanted, 192U + 24U + 410U);
  });
}

TEST(Engine, SendsAllDuringADenseWarmUpAndThenKOfEveryScheme) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    run(3, [&](Transport& link) {
      EngineOptions made = options(scheme.name);
      made.schedule = "dense:steps=2";
      made.memory = "residual";
      Engine engine(link, model(), made);
      for (std::uint64_t number = 0; number < 4; ++number) {
        const StepReport report = step(engine, link.rank(), number);
        EXPECT_TRUE(report.finite);
        EXPECT_EQ(report.k_wanted == 1034U,
                  number < 2 || scheme.collective.starts_with("dense"));
        if (number >= 2) continue;
        for (std::size_t p = 0; p < model().tensors.size(); ++p) {
          std::vector<float> sum(engine.gradient(p).size());
          std::vector<float> one(sum.size());
          for (int rank = 0; rank < 3; ++rank) {
            draw(one, rank, number, p);
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
          }
          const auto mean = engine.gradient(p);
          for (std::size_t i = 0; i < sum.size(); ++i)
            ASSERT_EQ(mean[i], sum[i] / 3.0F) << p << " " << i;
        }
      }
    });
  }
}

std::vector<std::uint64_t> wanted_of_fc(const EngineOptions& made, int steps) {
  std::vector<std::uint64_t> wanted;
  run(1, [&](Transport& link) {
    Engine engine(link, model(), made);
    for (int i = 0; i < steps; ++i)
      wanted.push_back(
          step(engine, 0, static_cast<std::uint64_t>(i)).buckets[0].k_wanted);
  });
  return wanted;
}

TEST(Engine, FollowsTheScheduleOfItsSchemeUnlessItIsGivenAnother) {
  EngineOptions made = options("dgc");  // fc.weight, of 400, is the first bucket
  made.density = 0.01;
  made.schedule.clear();
  made.steps_per_epoch = 2;
  EXPECT_EQ(wanted_of_fc(made, 10),
            (std::vector<std::uint64_t>{100, 100, 44, 44, 20, 20, 8, 8, 4, 4}));
  made.steps_per_epoch = 0;  // not known: 100 steps a stage
  EXPECT_EQ(wanted_of_fc(made, 100), std::vector<std::uint64_t>(100, 100));
  made.schedule = "constant";
  EXPECT_EQ(wanted_of_fc(made, 3), (std::vector<std::uint64_t>{4, 4, 4}));
  EngineOptions warm = options("oktopk");
  warm.schedule.clear();
  const auto wanted = wanted_of_fc(warm, 513);
  EXPECT_EQ(wanted[0], 400U);
  EXPECT_EQ(wanted[511], 400U);
  EXPECT_EQ(wanted[512], 40U);
}

TEST(Engine, ClipsEachRanksOwnGradientAsDgcDoes) {
  run(4, [](Transport& link) {
    EngineOptions made = options("dgc", 0);
    made.density = 1;
    made.memory = "dgc:momentum=0";
    // Each of 4 ranks has 3, of which a parameter of n in 1034 gets sqrt(n / 1034).
    made.clip = 6;
    made.bucket_bytes = 1;  // a bucket for each
    Engine engine(link, model(), made);
    engine.begin(0.1);
    for (std::size_t p = 0; p < model().tensors.size(); ++p) {
      std::ranges::fill(engine.gradient(p), 0.0F);
      engine.gradient(p)[0] = p == 2 ? 1e-3F : 100.0F + static_cast<float>(link.rank());
    }
    ASSERT_TRUE(engine.finish().finite);
    double squares = 0;
    for (std::size_t p = 0; p < model().tensors.size(); ++p) {
      const auto n = static_cast<double>(engine.gradient(p).size());
      const float got = engine.gradient(p)[0];
      const double most = 3 * std::sqrt(n / 1034);
      EXPECT_NEAR(got, p == 2 ? 1e-3 : most, 1e-6) << p;
      squares += static_cast<double>(got) * got;
    }
    EXPECT_LE(std::sqrt(squares), 3);
  });
}

TEST(Engine, GivesRowsTheirShareOfTheDensity) {
  // 7.5 % of 1,000 are 75, and of a row of 40 exactly 3; rows of 8 and of 3 give one.
  run(1, [](Transport& link) {
    EngineOptions made = options("adtopk", 0);
    made.density = 0.075;
    Engine engine(link, model(), made);
    const StepReport report = step(engine, 0, 0);
    EXPECT_EQ(report.buckets[0].k_wanted, 75U);
    EXPECT_EQ(report.buckets[0].k_selected, 10U * 3 + 16 * 3 + 8 * 9);
  });
}

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

/// Passes everything on to another channel, and calls `on_wait` in wait(). Where that throws,
/// the channel behind it is destroyed, if it is owned.
class Watched final : public Transport {
 public:
  Watched(Transport& link, std::function<void()> on_wait, std::function<double()> clock,
          std::unique_ptr<Transport> owned = nullptr)
      : owned_(std::move(owned)),
        link_(link),
        rank_(link.rank()),
        size_(link.size()),
        on_wait_(std::move(on_wait)),
        clock_(std::move(clock)) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  Pending send(int to, std::span<const std::byte> bytes) override {
    return link_.send(to, bytes);
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return link_.recv(from, into, limit);
  }
  void wait(Pending message) override {
    try {
      on_wait_();
    } catch (...) {
      owned_.reset();
      throw;
    }
    link_.wait(message);
  }
  bool allreduce(std::span<float>) override { return false; }
  double now() const noexcept override { return clock_(); }
  std::unique_ptr<Transport> channel(int id) override {
    auto made = link_.channel(id);
    Transport& link = *made;
    return std::make_unique<Watched>(link, on_wait_, clock_, std::move(made));
  }

 private:
  std::unique_ptr<Transport> owned_;
  Transport& link_;
  const int rank_;
  const int size_;
  std::function<void()> on_wait_;
  std::function<double()> clock_;
};

TEST(Engine, HidesCommunicationBehindTheCaller) {
  // The clock advances by one with every wait and never otherwise, so all times are exact.
  run(2, [](Transport& link) {
    std::atomic<int> waits = 0;
    const auto clock = [&] { return static_cast<double>(waits); };
    Watched watched(
        link, [&] { ++waits; }, clock);
    const Layout two = {{{"a", 0, {10, 10}}, {"b", 0, {10, 10}}}};
    Engine engine(watched, two, options("dense", 400));
    ASSERT_EQ(engine.buckets().size(), 2U);

    engine.begin();
    const StepReport late = engine.finish();
    ASSERT_GT(late.busy_seconds, 0);
    EXPECT_EQ(late.exposed_seconds, late.busy_seconds);
    EXPECT_EQ(late.overlap, 0);

    const int target = waits + static_cast<int>(late.buckets[0].seconds);
    engine.begin();
    engine.ready(1);
    // Backward of "a", for as long as it takes to reduce "b".
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (waits < target && std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
    ASSERT_EQ(waits, target) << "no bucket set out before finish()";
    engine.ready(0);
    while (waits < target + 1) std::this_thread::yield();
    const StepReport report = engine.finish();
    EXPECT_LT(report.exposed_seconds, report.buckets[1].seconds);
    EXPECT_GE(report.overlap, 0.5);
    EXPECT_LE(report.buckets[0].ready, report.buckets[0].start);
    EXPECT_GE(report.buckets[1].start,
              report.buckets[0].start + report.buckets[0].seconds);
    EXPECT_EQ(report.seconds, report.busy_seconds);
  });
}

TEST(Engine, LetsNoBucketOvertake) {
  run(1, [](Transport& link) {
    Engine engine(link, model(), options("knot"));
    engine.begin();
    for (const std::size_t p : {0, 1, 2, 3, 5}) engine.ready(p);
    // All but the first bucket are complete, and none of them has been touched.
    std::ranges::fill(engine.gradient(4), 1.0F);
    engine.ready(4);
    const StepReport report = engine.finish();
    for (std::size_t b = 1; b < report.buckets.size(); ++b) {
      EXPECT_LT(report.buckets[b].ready, report.buckets[0].ready);
      EXPECT_GE(report.buckets[b].start, report.buckets[b - 1].start);
    }
  });
}

TEST(Engine, ThrowsTheErrorOfTheCommunicationThreadInFinish) {
  const auto errors = run_to_the_end(3, [](Transport& link) {
    int left = 12;
    Watched watched(
        link,
        [&] {
          if (link.rank() == 1 && --left == 0) throw LinkError(2, "the cable is cut");
        },
        [&] { return link.now(); });
    Engine engine(watched, model(), options("knot"));
    try {
      for (std::uint64_t number = 0;; ++number) step(engine, link.rank(), number);
    } catch (const LinkError&) {
      EXPECT_EQ(residual(engine, "fc.weight").size(), 400U);  // it can be saved
      EXPECT_THROW(engine.begin(), LinkError);
      throw;
    }
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), LinkError);
  }
}

// Rank 0 leaves, rank 1 fails, and rank 2 waits for both: it gets an error, keeps its
// residual, and does not hang.
TEST(Engine, EndsInTheMiddleOfAStep) {
  LinkOptions short_wait;
  short_wait.timeout = 5;
  const auto errors = run_to_the_end(
      3,
      [](Transport& link) {
        Engine engine(link, model(), options("oktopk"));
        step(engine, link.rank(), 0);
        const std::vector<float> before = residual(engine, "conv1.weight");
        ASSERT_EQ(before.size(), 216U);
        engine.begin();
        for (std::size_t p = 6; p-- > 0;)
          if (link.rank() == 0 || p > 2) engine.ready(p);
        if (link.rank() == 1) throw std::runtime_error("backward failed");
        if (link.rank() != 2) return;
        try {
          engine.finish();
          FAIL() << "rank 2 did not notice";
        } catch (const LinkError& error) {
          EXPECT_NE(error.peer(), 2);
          EXPECT_EQ(residual(engine, "conv1.weight"), before);
          throw;
        }
      },
      short_wait);
  EXPECT_FALSE(errors[0]);
  EXPECT_REFUSAL(std::rethrow_exception(errors[1]), std::runtime_error,
                 "backward failed");
  ASSERT_TRUE(errors[2]);
  EXPECT_THROW(std::rethrow_exception(errors[2]), LinkError);
}

TEST(Engine, RefusesCallsOutOfTurn) {
  run(1, [](Transport& link) {
    Engine engine(link, model(), options("knot"));
    EXPECT_REFUSAL(engine.ready(0), ContractError,
                   "ready() was called outside of a step: begin() one first.");
    EXPECT_REFUSAL(engine.finish(), ContractError,
                   "finish() was called outside of a step: begin() one first.");
    engine.begin();
    State state;
    EXPECT_REFUSAL(engine.begin(), ContractError,
                   "begin() was called twice without a finish().");
    EXPECT_REFUSAL(engine.save(state), ContractError,
                   "save() was called within a step: finish() it first.");
    EXPECT_REFUSAL(engine.load(state), ContractError,
                   "load() was called within a step: finish() it first.");
    engine.ready(0);
    EXPECT_REFUSAL(engine.ready(0), ContractError,
                   "ready() was called twice for parameter 0 in one step.");
    EXPECT_REFUSAL(engine.ready(6), ContractError,
                   "There is no parameter 6; the engine was made with 6.");
    EXPECT_REFUSAL(engine.gradient(6), ContractError,
                   "There is no parameter 6; the engine was made with 6.");
    EXPECT_TRUE(engine.finish().finite);
  });
}

TEST(Engine, RefusesOptionsThatCannotBe) {
  run(1, [](Transport& link) {
    const auto said = [&](auto change) {
      EngineOptions made;
      change(made);
      return testing::refusal<ConfigError>([&] { Engine(link, model(), made); });
    };
    EXPECT_EQ(said([](EngineOptions& o) { o.scheme = "knott"; }),
              "There is no scheme named knott; nearest is knot. `topknot list` has all.");
    EXPECT_EQ(
        said([](EngineOptions& o) { o.collective = "ring"; }),
        "There is no collective named ring; nearest is dense. `topknot list` has all.");
    EXPECT_EQ(said([](EngineOptions& o) { o.memory = "residual:decai=1"; }),
              "residual has no parameter decai; nearest is decay (of decay, lr).");
    EXPECT_EQ(said([](EngineOptions& o) { o.density = 0; }),
              "A density of 0.000000 is not in (0, 1]; 0.01 sends one coordinate in a "
              "hundred.");
    EXPECT_EQ(said([](EngineOptions& o) { o.schedule = "cosine"; }),
              "There is no schedule named cosine; nearest is constant.");
    EXPECT_EQ(said([](EngineOptions& o) { o.rules = {"fc"}; }),
              "A rule is written name=dense or name=0.05, with * in the name for any "
              "characters; \"fc\" is not.");
    EXPECT_EQ(
        said([](EngineOptions& o) { o.clip = 1; }),
        "The memory residual does not clip, only dgc does: clip the mean that comes "
        "out.");
    EXPECT_EQ(said([](EngineOptions& o) { o.clip = -1; }),
              "A clip of -1 is no length: it is 0, for none, or more.");
  });
}

TEST(Engine, NeedsNoParameters) {
  run(2, [](Transport& link) {
    Engine engine(link, {{{"empty", 0, {0, 3}}}}, {});
    engine.begin();
    EXPECT_TRUE(engine.gradient(0).empty());
    engine.ready(0);
    EXPECT_TRUE(engine.finish().finite);
  });
}

#ifndef TOPKNOT_SANITIZED  // a sanitizer has an allocator of its own, which is not asked here
TEST(Engine, TakesAtMostTwiceTheGradientInFurtherMemory) {
  const std::uint64_t n = 1 << 22;
  const std::uint64_t gradient = n * sizeof(float);
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  for (const char* scheme : {"knot", "oktopk", "exdyna", "topka"}) {
    SCOPED_TRACE(scheme);
    const std::size_t before = in_use();
    std::barrier everyone(2);
    run(2, [&](Transport& link) {
      EngineOptions made = options(scheme, gradient / 4);
      made.density = 0.01;
      Layout layout;
      for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"})
        layout.tensors.push_back({name, 0, {n / 8, 1}});
      Engine engine(link, layout, made);
      core::Random random(static_cast<std::uint64_t>(link.rank()));
      for (int number = 0; number < 2; ++number) {
        engine.begin();
        for (std::size_t p = 0; p < 8; ++p)
          for (float& value : engine.gradient(p))
            value = static_cast<float>(random.laplace());
        engine.finish();
      }
      everyone.arrive_and_wait();
      EXPECT_EQ(engine.memory_bytes(), gradient);
      if (link.rank() == 0) {
        EXPECT_LE(in_use() - before, 2 * 3 * gradient);
      }
      everyone.arrive_and_wait();
    });
  }
}
#endif

}  // namespace
}  // namespace topknot

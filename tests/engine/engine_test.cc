// SPDX-License-Identifier: Apache-2.0
#include "topknot/engine.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <set>

#include "core/random.h"
#include "engine/bucket.h"
#include "engine/small_model.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

namespace topknot {
namespace {

using testing::draw;
using testing::means;
using testing::model;
using testing::options;
using testing::run;
using testing::step;

TEST(Engine, KnowsWhatItSentToWhomAndHowLongItsResidualIs) {
  run(3, [](Transport& link) {
    Engine engine(link, model(), options("topka"));
    std::uint64_t sent = 0;
    for (std::uint64_t number = 0; number < 3; ++number)
      sent += step(engine, link.rank(), number).sent_bytes;
    const Traffic traffic = engine.traffic();
    EXPECT_EQ(traffic.bytes(), sent);
    ASSERT_EQ(traffic.bytes_to.size(), 3U);
    EXPECT_EQ(traffic.bytes_to[static_cast<std::size_t>(link.rank())], 0U);
    State state;
    engine.save(state);
    double squares = 0;
    for (const auto& [key, value] : state.values)
      if (const auto* floats = std::get_if<std::vector<float>>(&value))
        for (const float x : *floats) squares += static_cast<double>(x) * x;
    EXPECT_GT(squares, 0);
    EXPECT_DOUBLE_EQ(engine.residual_norm(), std::sqrt(squares));
  });
}

TEST(Engine, HasDetailsWhereTheyAreAskedFor) {
  for (const bool wanted : {false, true})
    run(2, [&](Transport& link) {
      EngineOptions asked = options("topka");
      asked.details = wanted;
      Engine engine(link, model(), asked);
      const StepReport report = step(engine, link.rank(), 0);
      EXPECT_EQ(report.threshold > 0, wanted);
      EXPECT_GT(report.encode_seconds, 0);
      EXPECT_GT(report.decode_seconds, 0);
      std::set<Phase> phases;
      double waited = 0;
      for (const StepTrace& bucket : report.buckets)
        for (const PhaseSpan& span : bucket.spans) {
          phases.insert(span.phase);
          EXPECT_GE(span.start, bucket.start);
          EXPECT_LE(span.start + span.seconds, bucket.start + bucket.seconds);
          EXPECT_EQ(span.peer, span.phase == Phase::wait ? 1 - link.rank() : -1);
          if (span.phase == Phase::wait) waited += span.seconds;
        }
      EXPECT_EQ(phases.size(), wanted ? 4U : 0U);
      if (wanted) {
        EXPECT_NEAR(waited, report.wait_seconds, 1e-9);
      }
    });
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

TEST(Engine, SendsABucketWholeWhereAllOfItIsNamed) {
  run(3, [](Transport& link) {
    EngineOptions made = options("knot", 1 << 10);
    Engine plain(link, model(), made);
    made.channel = 1;
    for (const TensorSlot& tensor : plain.buckets().front().tensors)
      made.whole.push_back(tensor.name);
    Engine engine(link, model(), made);
    ASSERT_GT(engine.buckets().size(), 1U);
    ASSERT_EQ(engine.buckets().size(), plain.buckets().size()) << "the buckets stay";
    const StepReport sparse = step(plain, link.rank(), 0);
    const StepReport mixed = step(engine, link.rank(), 0);
    EXPECT_LT(sparse.buckets[0].count, engine.buckets()[0].size());
    EXPECT_EQ(mixed.buckets[0].count, engine.buckets()[0].size());
    EXPECT_EQ(mixed.buckets[1].count, sparse.buckets[1].count);
    EXPECT_EQ(engine.residual_norm() < plain.residual_norm(), true);
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

TEST(Engine, ClipsBeforeItSums) {
  run(4, [](Transport& link) {
    EngineOptions made = options("dgc", 0);
    made.density = 1;
    made.memory = "dgc:momentum=0";
    made.clip = 6;  // each rank has 3
    Engine engine(link, Layout::flat(16), made);
    engine.begin(0.1);
    std::ranges::fill(engine.gradient(0), 0.0F);
    if (link.rank() == 2) engine.gradient(0)[5] = 100;
    ASSERT_TRUE(engine.finish().finite);
    EXPECT_EQ(engine.gradient(0)[5], 3.0F / 4);
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
        "There is no collective named ring; there are dense, topka, allgather_fast, "
        "topkdsa, ssar, gtopk, spardl, oktopk, hierarchical, knot, exdyna, micro, deft "
        "and "
        "cltk. `topknot list` has all.");
    EXPECT_EQ(said([](EngineOptions& o) { o.memory = "residual:decai=1"; }),
              "residual has no parameter decai; nearest is decay (of decay, lr).");
    EXPECT_EQ(said([](EngineOptions& o) { o.density = 0; }),
              "A density of 0.000000 is not in (0, 1]; 0.01 sends one coordinate in a "
              "hundred.");
    EXPECT_EQ(said([](EngineOptions& o) { o.schedule = "cosine"; }),
              "There is no schedule named cosine; there are constant, dense and "
              "exponential.");
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

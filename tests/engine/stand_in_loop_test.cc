// SPDX-License-Identifier: Apache-2.0
//
// The trainer's loop on a model without torch, for the thread sanitizer, which cannot look into
// torch: ranks that are threads, each with an engine's thread beside it, the control channel and
// the checkpoints on channels of their own, as train/loop.cc has them. The loop itself needs torch;
// what it calls is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/random.h"
#include "job/optimizer.h"
#include "ranks.h"
#include "store/checkpoint.h"
#include "store/memory_files.h"
#include "topknot/engine.h"
#include "topknot/error.h"
#include "transports/control_channel.h"

namespace topknot::testing {
namespace {

constexpr int kRanks = 3;
constexpr std::uint64_t kSteps = 12;

const std::vector<std::size_t> kSizes = {600, 30, 200};

Layout layout() {
  return {{{"first.weight", 0, {30, 20}},
           {"first.bias", 0, {30}},
           {"last.weight", 0, {10, 20}}}};
}

EngineOptions engine_options() {
  EngineOptions options;
  options.density = 0.1;
  options.bucket_bytes = 1000;
  return options;
}

/// Weights that are pulled towards a point that differs by rank and step.
struct Model {
  std::vector<std::vector<float>> weights;

  Model() {
    for (const std::size_t size : kSizes) weights.emplace_back(size, 1.0F);
  }

  double backward(Engine& engine, int rank, std::uint64_t step) {
    double loss = 0;
    for (std::size_t p = weights.size(); p-- > 0;) {
      core::Random random(step * 100 + static_cast<std::uint64_t>(rank) * 10 + p);
      const auto gradient = engine.gradient(p);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = weights[p][i] - static_cast<float>(random.laplace());
        loss += gradient[i] * gradient[i];
      }
      engine.ready(p);
    }
    return loss;
  }
};

struct Outcome {
  std::vector<std::vector<float>> weights;
  double loss = 0;  // of all ranks, in the last step
  std::uint64_t steps = 0;
};

template <typename T>
State::Value value_as(const store::Array& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  if (array.shape.empty()) return values.at(0);
  if constexpr (std::constructible_from<State::Value, std::vector<T>>) return values;
  throw ContractError("A state has no vectors of this type.");
}

State::Value value_of(const store::Array& array) {
  switch (array.dtype) {
    case store::Dtype::f32:
      return value_as<float>(array);
    case store::Dtype::f64:
      return value_as<double>(array);
    case store::Dtype::i64:
      return value_as<std::int64_t>(array);
    default:
      return value_as<std::uint64_t>(array);
  }
}

/// One rank's run, from the checkpoint in `files` if there is one.
class Loop {
 public:
  Loop(Transport& link, store::Files& files, std::atomic<bool>& leave, bool stoppable)
      : link_(link),
        leave_(leave),
        stoppable_(stoppable),
        engine_(link, layout(), engine_options()),
        control_(link, 1),
        store_(link.channel(2)),
        folder_(files, "run"),
        optimizer_(train::make_optimizer(Spec::parse("sgd:momentum=0.9"), kSizes)) {
    if (!folder_.steps().empty()) load();
  }

  /// Any thread may ask to stop; rank 1 is told, as one process gets a signal.
  Outcome run(std::uint64_t steps) {
    Outcome outcome;
    bool leaves = false;
    while (engine_.steps() < steps && !leaves) {
      engine_.begin(0.05);
      const double loss = model_.backward(engine_, link_.rank(), engine_.steps());
      EXPECT_TRUE(engine_.finish().finite);
      optimizer_->begin_step();
      for (std::size_t p = 0; p < kSizes.size(); ++p)
        optimizer_->apply(p, model_.weights[p], engine_.gradient(p), {.lr = 0.05});
      const auto sums = control_.sum({loss, leave_ && link_.rank() == 1 ? 1.0 : 0.0});
      outcome.loss = sums[0];
      leaves = sums[1] > 0;
      if (stoppable_ && link_.rank() == 2 && engine_.steps() == 4) leave_ = true;
    }
    if (leaves) save();
    outcome.weights = model_.weights;
    outcome.steps = engine_.steps();
    return outcome;
  }

 private:
  void save() {
    store::Container shared;
    for (std::size_t p = 0; p < kSizes.size(); ++p) {
      shared.keep("weight" + std::to_string(p), model_.weights[p]);
      shared.keep("momentum" + std::to_string(p), optimizer_->slot(0, p));
    }
    State state;
    engine_.save(state);
    store::Container own;
    for (const auto& [name, value] : state.values)
      std::visit([&](const auto& one) { own.keep(name, one); }, value);
    folder_.save(*store_, engine_.steps(), shared, own, {"c0", "m0"});
  }
  void load() {
    const store::Loaded loaded = folder_.load(*store_, "m0");
    for (std::size_t p = 0; p < kSizes.size(); ++p) {
      copy(loaded.shared, "weight" + std::to_string(p), model_.weights[p]);
      copy(loaded.shared, "momentum" + std::to_string(p), optimizer_->slot(0, p));
    }
    optimizer_->steps() = loaded.manifest.step;
    State state;
    for (const auto& [name, array] : loaded.own.arrays())
      state.values[name] = value_of(array);
    engine_.load(state);
  }
  static void copy(const store::Container& from, const std::string& name,
                   std::vector<float>& into) {
    std::ranges::copy(from.values<float>(name), into.begin());
  }

  Transport& link_;
  std::atomic<bool>& leave_;
  const bool stoppable_;
  Engine engine_;
  ControlChannel control_;
  std::unique_ptr<Transport> store_;
  store::CheckpointFolder folder_;
  std::unique_ptr<train::Optimizer> optimizer_;
  Model model_;
};

/// All ranks' outcomes of one run over `files`.
std::vector<Outcome> run_loop(store::Files& files, bool stoppable) {
  std::vector<Outcome> outcomes(kRanks);
  std::atomic<bool> leave = false;
  run(kRanks, [&](Transport& link) {
    Loop loop(link, files, leave, stoppable);
    outcomes[static_cast<std::size_t>(link.rank())] = loop.run(kSteps);
  });
  for (const Outcome& one : outcomes) {
    EXPECT_EQ(one.steps, outcomes[0].steps);
    EXPECT_EQ(one.loss, outcomes[0].loss);
    EXPECT_EQ(one.weights, outcomes[0].weights);
  }
  return outcomes;
}

TEST(StandInLoop, GivesTheSameBitsWhenItIsStoppedAndResumed) {
  store::testing::MemoryFiles untouched;
  const Outcome whole = run_loop(untouched, /*stoppable=*/false)[0];
  EXPECT_EQ(whole.steps, kSteps);
  EXPECT_LT(whole.loss, 3 * 830 * 4.0);

  store::testing::MemoryFiles files;
  const Outcome first = run_loop(files, /*stoppable=*/true)[0];
  EXPECT_GT(first.steps, 4U);
  EXPECT_LT(first.steps, kSteps);
  const Outcome second = run_loop(files, /*stoppable=*/false)[0];
  EXPECT_EQ(second.steps, kSteps);
  EXPECT_EQ(second.loss, whole.loss);
  EXPECT_EQ(second.weights, whole.weights);
}

}  // namespace
}  // namespace topknot::testing

// SPDX-License-Identifier: Apache-2.0
//
// What a run records is what its ranks had, and recording changes nothing else.
#include "train/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "store/gradients.h"
#include "topknot/error.h"
#include "train/runs.h"

namespace topknot::train {
namespace {

using store::RecordedGradients;
using testing::Folder;
using testing::sentence_of;
using testing::train_on;
using Floats = std::vector<float>;

Job small_job() {
  Job job;
  job.name = "small";
  job.model = "mlp:hidden=16";
  job.data = "generated:classes=4,size=480,seed=3,side=8";
  job.batch = 8;
  job.steps = 9;
  job.lr = 0.05;
  job.optimizer = "sgd";
  job.density = 0.05;
  job.bucket_mb = 0.002;
  return job;
}

TrainOptions recording(const Folder& folder, std::vector<std::uint64_t> steps = {},
                       std::vector<int> ranks = {}) {
  return {
      .record = {folder.path() / "g.safetensors", std::move(steps), std::move(ranks)}};
}

RecordedGradients read(const Folder& folder) {
  return {store::disk(), folder.path() / "g.safetensors"};
}

/// Weights after some steps, flat, from the checkpoint that is written then.
Floats weights_after(int ranks, Job job, std::int64_t steps) {
  job.steps = steps;
  const Folder folder;
  train_on(ranks, job, {.checkpoints = folder.path()});
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (file.path().extension() != ".safetensors") continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    const auto container = store::Container::parse({bytes, bytes + text.size()}, "it");
    Floats all;
    for (const auto& [name, array] : container.arrays())
      if (name.starts_with("weight/"))
        for (const float one : container.values<float>(name)) all.push_back(one);
    if (!all.empty()) return all;
  }
  ADD_FAILURE() << "there are no weights";
  return {};
}

class EveryScheme : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryScheme, ComesToTheSameBitsWhenItRecords) {
  Job job = small_job();
  job.scheme = GetParam();
  job.schedule = "constant";
  job.accumulate = 2;
  const Folder folder;
  const Outcome with = train_on(3, job, recording(folder));
  EXPECT_EQ(with.weights_hash, train_on(3, job).weights_hash);
  EXPECT_EQ(with.recorded_steps, 3U);
}

INSTANTIATE_TEST_SUITE_P(Some, EveryScheme,
                         ::testing::Values("dense", "knot", "oktopk", "dgc"));

// Plain SGD moves the weights by -lr times the mean over the ranks.
TEST(Recorder, HasTheGradientsThatTheStepWasMadeOf) {
  Job job = small_job();
  job.scheme = "dense";
  job.accumulate = 2;
  const Folder folder;
  train_on(3, job, recording(folder, {4}));
  const RecordedGradients recorded = read(folder);
  EXPECT_EQ(recorded.steps(), (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(recorded.ranks(), (std::vector<std::uint64_t>{0, 1, 2}));
  const Floats before = weights_after(3, job, 4);
  const Floats after = weights_after(3, job, 5);

  // The checkpoint has its weights by name, the recording in forward order.
  std::vector<TensorSlot> by_name = recorded.layout().tensors;
  std::ranges::sort(by_name, {}, &TensorSlot::name);
  std::size_t at = 0;
  double largest = 0;
  for (const TensorSlot& tensor : by_name)
    for (std::size_t i = 0; i < tensor.size(); ++i, ++at) {
      double mean = 0;
      for (std::size_t rank = 0; rank < 3; ++rank)
        mean += recorded.flat(0, rank)[tensor.offset + i] / 3.0;
      ASSERT_NEAR(before[at] - after[at], job.lr * mean, 1e-6) << tensor.name;
      largest = std::max(largest, std::abs(job.lr * mean));
    }
  EXPECT_EQ(at, before.size());
  EXPECT_GT(largest, 1e-3) << "or there was nothing to tell apart";
  EXPECT_NE(recorded.flat(0, 0), recorded.flat(0, 1)) << "each rank has its own";
}

TEST(Recorder, KeepsTheForwardOrderAndTheShapes) {
  const Folder folder;
  train_on(2, small_job(), recording(folder, {0}));
  const RecordedGradients recorded = read(folder);
  std::vector<std::vector<std::uint64_t>> shapes;
  for (const TensorSlot& tensor : recorded.layout().tensors)
    shapes.push_back(tensor.shape);
  ASSERT_GE(shapes.size(), 4U);
  EXPECT_EQ(shapes.front()[0], 16U) << "the hidden layer comes before";
  EXPECT_EQ(shapes.back(), (std::vector<std::uint64_t>{4})) << "the classes' biases";
  EXPECT_EQ(recorded.about("model"), "mlp:hidden=16");
  EXPECT_EQ(recorded.about("workers"), "2");
}

TEST(Recorder, TakesFirstMiddleAndLastUnlessTold) {
  const Folder folder;
  train_on(1, small_job(), recording(folder));
  EXPECT_EQ(read(folder).steps(), (std::vector<std::uint64_t>{0, 4, 8}));
}

TEST(Recorder, TakesTheStepsAndRanksThatWereChosen) {
  const Folder folder;
  train_on(3, small_job(), recording(folder, {7, 2, 2}, {2, 1}));
  EXPECT_EQ(read(folder).steps(), (std::vector<std::uint64_t>{2, 7}));
  EXPECT_EQ(read(folder).ranks(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "g.safetensors.recording"));
}

TEST(Recorder, RecordsTheSameOfAnyRankAlone) {
  const Folder all;
  const Folder one;
  train_on(3, small_job(), recording(all, {3}));
  train_on(3, small_job(), recording(one, {3}, {2}));
  EXPECT_EQ(read(all).flat(0, 2), read(one).flat(0, 0));
}

TEST(Recorder, RefusesWhatTheRunHasNot) {
  const Folder folder;
  EXPECT_EQ(sentence_of<ConfigError>([&] {
              train_on(2, small_job(), recording(folder, {0, 9}));
            }),
            "Step 9 cannot be recorded: counted from 0, the run's last is 8.");
  EXPECT_EQ(sentence_of<ConfigError>([&] {
              train_on(2, small_job(), recording(folder, {0}, {0, 2}));
            }),
            "There is no rank 2 to record the gradients of: the last of 2 is 1.");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Recorder, GoesOnWithTheStepsThatAResumeHasLeft) {
  const Folder folder;
  const Folder checkpoints;
  Job half = small_job();
  half.steps = 5;
  train_on(2, half, {.checkpoints = checkpoints.path()});
  TrainOptions options = recording(folder, {2, 6});
  options.checkpoints = checkpoints.path();
  options.resume = true;
  train_on(2, small_job(), options);
  EXPECT_EQ(read(folder).steps(), (std::vector<std::uint64_t>{6}));

  // Now the run is over, and nothing is left to record.
  EXPECT_EQ(train_on(2, small_job(), options).recorded_steps, 0U);
}

/// Wants to leave after some steps.
class Impatient final : public Observer {
 public:
  explicit Impatient(int steps) : steps_(steps) {}
  bool asked_to_stop() override { return --steps_ <= 0; }

 private:
  int steps_;
};

TEST(Recorder, WritesWhatItHasWhenTheRunIsLeftEarly) {
  for (const int steps : {2, 5}) {
    const Folder folder;
    std::uint64_t recorded = 0;
    topknot::testing::run(2, [&](Transport& link) {
      Impatient observer(steps);
      const Outcome outcome =
          train(link, small_job(), recording(folder, {3, 8}), observer);
      if (link.rank() == 0) recorded = outcome.recorded_steps;
    });
    EXPECT_EQ(recorded, steps == 2 ? 0U : 1U);
    if (steps == 2) {
      EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    } else {
      EXPECT_EQ(read(folder).steps(), (std::vector<std::uint64_t>{3}));
    }
  }
}

TEST(Recorder, EndsOnAllRanksWhenTheDiskRefuses) {
  const auto errors = topknot::testing::run_to_the_end(2, [&](Transport& link) {
    Observer silent;
    const TrainOptions options{.record = {"/nowhere/g.safetensors", {1}, {}}};
    train(link, small_job(), options, silent);
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), StorageError);
  }
}

}  // namespace
}  // namespace topknot::train

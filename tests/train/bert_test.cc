// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "refusal.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/runs.h"
#include "train/task.h"

namespace topknot::train {
namespace {

using testing::train_on;

Job small_job() {
  Job job;
  job.name = "bert";
  job.model = "bert:size=tiny,layers=1,width=32,length=32";
  job.data = "generated:words=128,size=60,seed=2";
  job.epochs = 2;
  job.batch = 4;
  job.optimizer = "adamw:correct=0,eps=1e-6";
  job.lr = 0.003;
  job.lr_schedule = "linear";
  job.warmup = 0.2;
  job.weight_decay = 0.01;
  job.decay_vectors = false;
  job.density = 0.05;
  return job;
}

std::int64_t weights_of(const char* model) {
  const auto made = make_model<made_for::bert>(Spec::parse(model), 30'522);
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : made->parameters()) count += parameter.numel();
  return count;
}

TEST(Bert, HasAsManyWeightsAsThePapersSay) {
  EXPECT_EQ(weights_of("bert:size=tiny"), 4'433'468);
  EXPECT_EQ(weights_of("bert:size=small"), 29'058'876);
  EXPECT_EQ(weights_of("bert"), 110'106'428);
  EXPECT_EQ(weights_of("bert:tied=0"), 133'547'324) << "Ok-Topk's";
}

TEST(Bert, LearnsHowOftenPiecesOccur) {
  Job job = small_job();
  job.data = "generated:words=128,size=200,seed=2";
  job.epochs = 6;
  const Outcome outcome = train_on(2, job);
  EXPECT_EQ(outcome.metric.name, "perplexity");
  EXPECT_LT(outcome.metric.value, 120) << "every piece alike would be about 190";
}

TEST(Bert, LearnsABatchByHeart) {
  Job job = small_job();
  job.model = "bert:size=tiny,width=64,length=32,dropout=0";
  at::set_num_threads(1);
  const auto task = make_task(job, {0, 1});
  torch::optim::Adam adam(task->model().parameters(), torch::optim::AdamOptions(2e-3));
  double loss = 0;
  for (int step = 0; step < 150; ++step) {
    adam.zero_grad();
    const torch::Tensor one = task->loss({});
    one.backward();
    adam.step();
    loss = one.item<double>();
  }
  EXPECT_LT(loss, 0.1) << "hidden pieces and next sentence, from 5.9";
}

TEST(Bert, StartsFromNoPreference) {
  const auto task = make_task(small_job(), {0, 1});
  const double pieces = 57 + 129;  // special ones and letters, words and the full stop
  EXPECT_NEAR(task->loss({}).item<double>(), std::log(pieces) + std::log(2.0), 0.3);
}

TEST(Bert, DoesNotLookAtPadding) {
  const auto bert =
      make_model<made_for::bert>(Spec::parse("bert:size=tiny,length=8"), 50);
  bert->initialise(1);
  PairModel::Input input;
  input.ids = torch::arange(8).reshape({1, 8});
  input.segments = torch::zeros({1, 8}, torch::kLong);
  input.unseen = torch::zeros({1, 1, 1, 8});
  input.unseen.slice(3, 5) = -std::numeric_limits<float>::infinity();
  input.hidden = torch::tensor({2}, torch::kLong);
  const torch::Tensor before = bert->forward(input, nullptr).pieces;
  input.ids.slice(1, 5) = 40;
  EXPECT_TRUE(bert->forward(input, nullptr).pieces.equal(before));
  input.ids.slice(1, 4, 5) = 40;
  EXPECT_FALSE(bert->forward(input, nullptr).pieces.equal(before));
}

TEST(Bert, HidesOtherPiecesInEveryEpochButOfTheTestHalf) {
  Job job = small_job();
  job.model += ",dropout=0";
  const auto task = make_task(job, {0, 1});
  EXPECT_NE(task->loss({}).item<float>(), task->loss({.epoch = 1}).item<float>());
  EXPECT_EQ(task->loss({}).item<float>(), task->loss({}).item<float>());
  EXPECT_EQ(task->evaluate(), task->evaluate());
}

TEST(Bert, ScoresEveryPairOnce) {
  double scored = 0;
  for (int rank = 0; rank < 3; ++rank)
    scored += make_task(small_job(), {rank, 3})->evaluate()[0];
  EXPECT_EQ(scored, static_cast<double>(make_task(small_job(), {0, 3})->test_samples()));
}

TEST(Bert, ResumesToTheSameBits) {
  Job job = small_job();
  job.steps = 13;
  testing::expect_resumes(1, job, 6);
  testing::expect_resumes(2, job, 6);
}

TEST(Bert, SaysWhatIsWrong) {
  Job job = small_job();
  job.model = "bert:width=30,heads=4";
  EXPECT_EQ(
      testing::sentence_of<ConfigError>([&] {
        make_task(job, {0, 1});
      }),
      "bert: a width of 30 cannot be shared by 4 heads; the width must be a multiple "
      "of the heads.");
  job.model = "bert:length=513";
  EXPECT_REFUSAL(make_task(job, {0, 1}), ConfigError,
                 "bert: pairs of length 513 need as many places, and there are 512.");
  job.model = "bert:size=huge";
  EXPECT_REFUSAL(make_task(job, {0, 1}), ConfigError,
                 "There is no size=huge; there are base, small and tiny.");
  job = small_job();
  job.data = "wikipedia-en";
  job.folder = "/nowhere";
  EXPECT_REFUSAL(make_task(job, {0, 1}), DataError,
                 "/nowhere: there is no bert-vocab in it; `topknot data bert-vocab` "
                 "fetches it.");
}

TEST(Bert, RefusesAShardCutShort) {
  const testing::Folder folder;
  std::ofstream(folder.path() / "vocab.txt")
      << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n";
  for (const char* half : {"train", "valid"}) {
    std::filesystem::create_directories(folder.path() / half / "AA");
    std::ofstream(folder.path() / half / "AA" / "wiki_00")
        << "<doc id=\"1\" title=\"a\">\na\n\na a. A a.\n";
  }
  Job job = small_job();
  job.data = "wikipedia-en";
  job.folder = folder.path().string();
  EXPECT_NE(testing::sentence_of<DataError>([&] {
              make_task(job, {0, 1});
            }).find("wiki_00"),
            std::string::npos);
}

}  // namespace
}  // namespace topknot::train

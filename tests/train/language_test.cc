// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "data/text.h"
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
  job.name = "language";
  job.model = "lstm:layers=2,width=24,dropout=0.2,bptt=10";
  job.data = "generated:words=128,size=6000,seed=2";
  job.epochs = 2;
  job.batch = 4;
  job.optimizer = "adam";
  job.lr = 0.01;
  job.clip = 1;
  job.density = 0.05;
  return job;
}

std::int64_t weights_of(const char* model, std::int64_t words) {
  const auto made = make_model<made_for::language>(Spec::parse(model), words);
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : made->parameters()) count += parameter.numel();
  return count;
}

constexpr std::int64_t kWikiText2 = 33'278;  // types, as it is published
constexpr std::int64_t kExDyna = 28'869;  // types that ExDyna's published count comes to

TEST(Language, HasAsManyWeightsAsThePapersSay) {
  EXPECT_EQ(weights_of("lstm:layers=3,width=650,tied=1", kExDyna), 28'949'319);
  EXPECT_EQ(weights_of("lstm:layers=3,width=650,tied=1", kWikiText2), 31'819'578);
  EXPECT_EQ(weights_of("lstm", kWikiText2), 37'319'278);
}

/// Of the test part, for who knows how often each word occurs and nothing else.
double perplexity_of_frequencies(const Job& job) {
  const data::Words words = data::open_words(job.data, "");
  std::vector<double> counts(words.vocabulary.size(), 1);
  for (const data::TokenId id : words.train) counts[static_cast<std::size_t>(id)] += 1;
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  double loss = 0;
  for (const data::TokenId id : words.test)
    loss -= std::log(counts[static_cast<std::size_t>(id)] / all);
  return std::exp(loss / static_cast<double>(words.test.size()));
}

TEST(Language, LearnsMoreThanHowOftenWordsOccur) {
  Job job = small_job();
  job.data = "generated:words=128,size=12000,seed=2";
  job.epochs = 6;
  const Outcome outcome = train_on(2, job);
  EXPECT_EQ(outcome.metric.name, "perplexity");
  EXPECT_LT(outcome.metric.value, 0.9 * perplexity_of_frequencies(job));
}

TEST(Language, CountsWords) {
  const auto task = make_task(small_job(), {1, 2});
  EXPECT_EQ(task->samples_per_pass(), 80U);     // 8 lanes, 10 words of each
  EXPECT_EQ(task->train_samples(), 8U * 749U);  // (6000 - 1) / 8
  EXPECT_EQ(task->test_samples(), 601U - 1U);
}

TEST(Language, ScoresEveryWordOfTheTestPart) {
  Job job = small_job();
  job.data = "generated:words=128,size=60000,seed=2";
  double scored = 0;
  for (int rank = 0; rank < 3; ++rank) scored += make_task(job, {rank, 3})->evaluate()[0];
  EXPECT_LE(scored, 6000);
  EXPECT_GT(scored, 6000 - 3 * 16);
}

TEST(Language, CarriesItsStateFromPassToPass) {
  Job job = small_job();
  job.model = "lstm:layers=1,width=8,dropout=0,bptt=10";
  const auto carried = make_task(job, {0, 1});
  const auto cold = make_task(job, {0, 1});
  const Position second{.epoch = 0, .sample = carried->samples_per_pass(), .step = 1};
  carried->loss({});
  EXPECT_NE(carried->loss(second).item<float>(), cold->loss(second).item<float>());
  EXPECT_EQ(carried->carried().size(), 2U);
  EXPECT_GT(carried->carried()[0].second.abs().max().item<float>(), 0);
}

TEST(Language, ForgetsWhereAnEpochBegins) {
  Job job = small_job();
  job.model = "lstm:layers=1,width=8,dropout=0,bptt=10";
  const auto task = make_task(job, {0, 1});
  const float first = task->loss({}).item<float>();
  EXPECT_EQ(task->loss({.epoch = 1}).item<float>(), first);
}

TEST(Language, ResumesToTheSameBits) {
  Job job = small_job();
  job.steps = 13;
  testing::expect_resumes(1, job, 6);
  testing::expect_resumes(2, job, 6);
}

TEST(Language, ResumesToTheSameBitsWithATiedOutput) {
  Job job = small_job();
  job.model += ",tied=1";
  job.lr_schedule = "plateau:patience=1";
  testing::expect_resumes(2, job, 80);
}

TEST(Language, GoesOnWithAnotherNumberOfWorkers) {
  Job job = small_job();
  job.steps = 5;
  const testing::Folder folder;
  const std::string weights =
      train_on(2, job, {.checkpoints = folder.path()}).weights_hash;
  const Outcome same = train_on(3, job, {.checkpoints = folder.path(), .resume = true});
  EXPECT_EQ(same.steps, 5U);
  EXPECT_EQ(same.weights_hash, weights);
  job.steps = 8;
  EXPECT_EQ(train_on(3, job, {.checkpoints = folder.path(), .resume = true}).steps, 8U);
}

TEST(Language, SaysWhatIsWrong) {
  Job job = small_job();
  job.batch = 700;
  EXPECT_EQ(
      testing::sentence_of<ConfigError>([&] {
        make_task(job, {0, 1});
      }),
      "A text of 6000 words is too short for 700 lanes (batch x workers) of 10 words "
      "(bptt); take fewer or shorter ones.");
  job = small_job();
  job.model = "lstm:tied=1,embedding=20,width=30";
  EXPECT_REFUSAL(make_task(job, {0, 1}), ConfigError,
                 "lstm:tied=1 needs an embedding as wide as the layers, and 20 is not "
                 "30; leave one of them out.");
  job.model = "lstm:depth=2";
  EXPECT_REFUSAL(make_task(job, {0, 1}), ConfigError,
                 "lstm has no parameter depth; there are layers, width, embedding, tied, "
                 "dropout and bptt.");
  job = small_job();
  job.data = "wikitext3";
  EXPECT_REFUSAL(make_task(job, {0, 1}), ConfigError,
                 "There is no corpus \"wikitext3\"; there are wikitext2 and generated.");
}

TEST(Language, RefusesAWordThatTheVocabularyHasNot) {
  const testing::Folder folder;
  for (const char* part : {"train", "valid", "test"}) {
    std::ofstream file(folder.path() / (std::string(part) + ".txt"));
    file << "the cat sat\n" << (part[0] == 't' && part[1] == 'e' ? "the dog sat\n" : "");
  }
  Job job = small_job();
  job.data = "wikitext2";
  job.folder = folder.path().string();
  EXPECT_NE(testing::sentence_of<DataError>([&] {
              make_task(job, {0, 1});
            }).find("dog"),
            std::string::npos);
}

}  // namespace
}  // namespace topknot::train

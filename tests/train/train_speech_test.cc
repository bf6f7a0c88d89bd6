// SPDX-License-Identifier: Apache-2.0
//
// Recognition: the model, its padding, and whole runs on generated speech.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/write_domains.h"
#include "refusal.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/runs.h"
#include "train/task.h"

namespace topknot::train {
namespace {

using testing::train_on;

constexpr std::int64_t kFeatures = 161;
constexpr std::int64_t kLetters = 29;

std::shared_ptr<AcousticModel> make(const char* text) {
  Params params = Params::parse(text);
  auto model = model::acoustic(params, {kFeatures, kLetters, 1});
  params.refuse_unknown("acoustic");
  return model;
}

std::int64_t weights_of(const char* text) {
  std::int64_t count = 0;
  for (const torch::Tensor& one : make(text)->parameters()) count += one.numel();
  return count;
}

Job small_job() {
  Job job;
  job.name = "small";
  job.model = "acoustic:layers=1,width=24,directions=2,front=conv1d,dropout=0.2";
  job.data = "generated:size=24";
  job.epochs = 3;
  job.batch = 2;
  job.optimizer = "adam";
  job.lr = 0.005;
  job.density = 0.1;
  job.bucket_mb = 0.01;
  return job;
}

TEST(Acoustic, HasAsManyWeightsAsThePapersSay) {
  EXPECT_EQ(weights_of(""), 27'569'568);
  EXPECT_EQ(weights_of("directions=2"), 54'823'168);
}

TEST(Acoustic, HearsAnUtteranceAlikeInAnyCompany) {
  for (const char* text :
       {"layers=2,width=16,directions=2,front=conv1d", "layers=2,width=16,front=conv1d",
        "layers=1,width=16,directions=2,front=none", "layers=1,width=16,front=conv2d"}) {
    const auto model = make(text);
    model->eval();
    const torch::NoGradGuard no_grad;
    const auto noise = at::make_generator<at::CPUGeneratorImpl>(3);
    const torch::Tensor longer = torch::rand({1, 50, kFeatures}, noise);
    const torch::Tensor shorter = torch::rand({1, 31, kFeatures}, noise);
    const Frames alone = model->forward({shorter, {31}}, nullptr);
    const torch::Tensor padded = torch::constant_pad_nd(shorter, {0, 0, 0, 19});
    const Frames both = model->forward({torch::cat({longer, padded}), {50, 31}}, nullptr);
    ASSERT_EQ(both.lengths[1], alone.lengths[0]);
    const torch::Tensor heard = both.values[1].slice(0, 0, alone.lengths[0]);
    EXPECT_TRUE(heard.allclose(alone.values[0], 1e-4, 1e-5)) << text;
  }
}

TEST(Acoustic, GivesProbabilities) {
  const auto model = make("layers=1,width=16");
  const Frames out = model->forward({torch::zeros({2, 40, kFeatures}), {40, 9}}, nullptr);
  EXPECT_EQ(out.values.sizes(), (std::vector<std::int64_t>{2, 20, kLetters}));
  EXPECT_EQ(out.lengths, (std::vector<std::int64_t>{20, 5}));
  EXPECT_NEAR(out.values[0][0].exp().sum().item<double>(), 1, 1e-5);
}

TEST(Acoustic, RefusesWhatItCannotBe) {
  EXPECT_REFUSAL(make("front=conv3d"), ConfigError,
                 "There is no front=conv3d; nearest are conv2d and conv1d (of conv2d, "
                 "conv1d, none).");
  EXPECT_REFUSAL(make("directions=3"), ConfigError, "directions=3 is not in 1..2.");
  EXPECT_REFUSAL(make("depth=3"), ConfigError,
                 "acoustic has no parameter depth; there are front, layers, width, "
                 "directions, lookahead and dropout.");
}

TEST(Recognition, LearnsTheSpokenTones) {
  Job job = small_job();
  job.model = "acoustic:layers=1,width=64,directions=2,front=conv1d,dropout=0.1";
  job.data = "generated:size=160";
  job.epochs = 14;
  job.batch = 4;
  job.lr = 0.01;
  const Outcome outcome = train_on(2, job);
  EXPECT_EQ(outcome.metric.name, "word error rate");
  EXPECT_LT(outcome.metric.value, 0.5) << "one who hears nothing has 1";
}

TEST(Recognition, SharesUtterancesOutForEvaluation) {
  const auto alone = make_task(small_job(), {0, 1})->evaluate();
  std::vector<double> together(alone.size());
  for (int rank = 0; rank < 2; ++rank) {
    const auto part = make_task(small_job(), {rank, 2})->evaluate();
    for (std::size_t i = 0; i < part.size(); ++i) together[i] += part[i];
  }
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_NEAR(together[1], alone[1], 1e-3 * alone[1]);
  EXPECT_EQ(together[3], alone[3]);
}

class Ranks : public ::testing::TestWithParam<int> {};

TEST_P(Ranks, ResumeToTheSameBits) {
  Job job = small_job();
  job.steps = 8;
  testing::expect_resumes(GetParam(), job, 3);
}

INSTANTIATE_TEST_SUITE_P(Recognition, Ranks, ::testing::Values(1, 2));

TEST(Recognition, DropsOtherUnitsInEveryPass) {
  const auto task = make_task(small_job(), {0, 1});
  const auto loss = [&](std::uint64_t epoch) {
    return task->loss({epoch, 0, 0}).item<double>();
  };
  EXPECT_EQ(loss(0), loss(0));
  Job dry = small_job();
  dry.model = "acoustic:layers=1,width=24,directions=2,front=conv1d";
  EXPECT_NE(loss(0), make_task(dry, {0, 1})->loss({0, 0, 0}).item<double>());
}

TEST(Recognition, TrainsOnAn4) {
  const testing::Folder folder;
  data::write_an4(folder.path(), 6, 3);
  Job job = small_job();
  job.data = "an4";
  job.folder = folder.path();
  job.steps = 2;
  EXPECT_EQ(train_on(2, job).steps, 2U);
}

/// The sentence that the task of AN4 in this folder ends with.
std::string refusal(const std::filesystem::path& folder) {
  Job job = small_job();
  job.data = "an4";
  job.folder = folder;
  try {
    make_task(job, {0, 1});
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(Recognition, RefusesAWaveThatIsCutShortBeforeItTrains) {
  const testing::Folder folder;
  data::write_an4(folder.path(), 4, 2);
  const auto wave = folder.path() / "wav/an4test_clstk/abcd/an1-abcd-b.wav";
  std::filesystem::resize_file(wave, std::filesystem::file_size(wave) - 100);
  EXPECT_NE(refusal(folder.path()).find("an1-abcd-b.wav"), std::string::npos);
}

TEST(Recognition, RefusesATranscriptWithoutItsFile) {
  const testing::Folder folder;
  data::write_an4(folder.path(), 4, 2);
  std::filesystem::remove(folder.path() / "wav/an4_clstk/abcd/an3-abcd-b.wav");
  EXPECT_NE(refusal(folder.path()).find("there is a transcript but no"),
            std::string::npos);
}

}  // namespace
}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// Recommendation: the model, what its samples are, and whole runs on generated ratings.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "data/write_domains.h"
#include "refusal.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/runs.h"
#include "train/task.h"
#include "train/tasks/permutation.h"

namespace topknot::train {
namespace {

using testing::train_on;

std::int64_t weights_of(const char* text, std::uint32_t users, std::uint32_t items) {
  Params params = Params::parse(text);
  std::int64_t count = 0;
  for (const torch::Tensor& one : model::ncf(params, {users, items, 1})->parameters())
    count += one.numel();
  return count;
}

Job small_job() {
  Job job;
  job.name = "small";
  job.model = "ncf:factors=8,layers=32-16-8,dropout=0.2";
  job.data = "generated:users=200,items=400,each=20";
  job.epochs = 2;
  job.batch = 64;
  job.optimizer = "adam";
  job.lr = 0.005;
  job.density = 0.05;
  job.bucket_mb = 0.01;
  return job;
}

TEST(Permutation, HasEveryPlaceOnce) {
  for (const std::uint64_t size : {1, 2, 3, 16, 17, 1000, 65537}) {
    const Permutation order(size, 7);
    std::set<std::uint64_t> seen;
    std::uint64_t moved = 0;
    for (std::uint64_t i = 0; i < size; ++i) {
      ASSERT_LT(order(i), size);
      seen.insert(order(i));
      moved += order(i) == i ? 0 : 1;
    }
    EXPECT_EQ(seen.size(), size);
    if (size > 100) {
      EXPECT_GT(moved, size * 9 / 10);
      EXPECT_NE(order(0), Permutation(size, 8)(0));
    }
  }
}

TEST(Ncf, HasAsManyWeightsAsThePaperSays) {
  EXPECT_EQ(weights_of("", 138'493, 26'744), 31'832'577);
  EXPECT_EQ(weights_of("factors=8,layers=32-16-8", 10, 20),
            30 * (8 + 16) + 32 * 16 + 16 + 16 * 8 + 8 + 16 + 1);
}

TEST(Ncf, RefusesLayersThatAreNone) {
  for (const char* layers : {"256", "33-16", "32-", "32-x", "-32-16", "0-16", "32x16"})
    EXPECT_REFUSAL(weights_of(("layers=" + std::string(layers)).c_str(), 5, 5),
                   ConfigError,
                   std::string("The layers of ncf cannot be ") + layers +
                       "; they are two or more widths, the first even, as in "
                       "256-256-128-64.");
}

TEST(Recommendation, LearnsTheGeneratedRatings) {
  Job job = small_job();
  const double before = [&] {
    const auto task = make_task(job, {0, 1});
    return task->metric(task->evaluate()).value;
  }();
  EXPECT_LT(before, 0.2) << "chance is 0.1";
  job.epochs = 20;
  job.density = 0.1;
  job.memory = "adam:masking=0";  // as docs/accuracy.md says of rare features
  const Outcome outcome = train_on(2, job);
  EXPECT_EQ(outcome.metric.name, "HR@10");
  EXPECT_GT(outcome.metric.value, 0.3);
}

// A model whose logits are all the same cannot tell; one hit in 1 rank would be luck.
TEST(Recommendation, CountsTiesAgainstTheHeldOutItem) {
  const auto task = make_task(small_job(), {0, 1});
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& one : task->model().parameters()) one.zero_();
  EXPECT_EQ(task->metric(task->evaluate()).value, 0);
}

TEST(Recommendation, GivesNdcgBesideItsMetric) {
  const auto task = make_task(small_job(), {0, 1});
  const std::vector<double> sums = task->evaluate();
  const std::vector<Metric> others = task->others(sums);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].name, "NDCG@10");
  EXPECT_LT(others[0].value, task->metric(sums).value);
  EXPECT_GT(others[0].value, task->metric(sums).value / std::log2(11.1));
}

TEST(Recommendation, SharesUsersOutForEvaluation) {
  const auto alone = make_task(small_job(), {0, 1})->evaluate();
  std::vector<double> together(alone.size());
  for (int rank = 0; rank < 3; ++rank) {
    const auto part = make_task(small_job(), {rank, 3})->evaluate();
    for (std::size_t i = 0; i < part.size(); ++i) together[i] += part[i];
  }
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[2], alone[2]);
}

TEST(Recommendation, DrawsOtherNegativesInEveryEpoch) {
  const auto task = make_task(small_job(), {0, 1});
  const auto loss = [&](std::uint64_t epoch) {
    return task->loss({epoch, 0, 0}).item<double>();
  };
  EXPECT_EQ(loss(0), loss(0));
  EXPECT_NE(loss(0), loss(1));
}

class Ranks : public ::testing::TestWithParam<int> {};

TEST_P(Ranks, ResumeToTheSameBits) {
  Job job = small_job();
  job.steps = 13;
  testing::expect_resumes(GetParam(), job, 6);
}

INSTANTIATE_TEST_SUITE_P(Recommendation, Ranks, ::testing::Values(1, 2));

TEST(Recommendation, ReadsBothLayouts) {
  const testing::Folder ncf;
  data::write_ncf(ncf.path(), "ml-1m");
  const testing::Folder raw;
  data::write_ratings(raw.path() / "ratings.dat", "::");
  Job job = small_job();
  job.data = "ml-1m";
  job.steps = 2;
  for (const auto& folder : {ncf.path(), raw.path()}) {
    job.folder = folder;
    EXPECT_EQ(train_on(1, job).steps, 2U);
  }
}

TEST(Recommendation, RefusesARatingOfAnUnknownItem) {
  const testing::Folder folder;
  data::write_ncf(folder.path(), "ml-1m");
  data::write_file(folder.path() / "ml-1m.train.rating", "0\t1\t1\n0\t-7\t1\n");
  Job job = small_job();
  job.data = "ml-1m";
  job.folder = folder.path();
  try {
    make_task(job, {0, 1});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("line 2 has the unknown item -7"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace topknot::train

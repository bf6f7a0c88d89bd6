// SPDX-License-Identifier: Apache-2.0
//
// Ranks that were not started alike, and ranks that come apart on the way.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "data/write_images.h"
#include "store/checkpoint.h"
#include "topknot/error.h"
#include "train/runs.h"

namespace topknot::train {
namespace {

using testing::Folder;
using testing::train_on;
using topknot::testing::run_to_the_end;

Job small_job() {
  Job job;
  job.name = "small";
  job.model = "mlp:hidden=8";
  job.data = "generated:classes=4,size=240,seed=3,side=8";
  job.epochs = 1;
  job.batch = 8;
  job.lr = 0.05;
  job.density = 0.05;
  job.bucket_mb = 0.01;
  job.steps = 8;
  return job;
}

/// What is wrong on each rank with its own job and options, by rank; the sentences must be the
/// same on all.
template <typename E>
std::vector<std::string> refused(const std::vector<Job>& jobs,
                                 const std::vector<TrainOptions>& options) {
  std::vector<std::vector<std::string>> said;
  const auto errors = run_to_the_end(static_cast<int>(jobs.size()), [&](Transport& link) {
    Observer silent;
    const auto rank = static_cast<std::size_t>(link.rank());
    train(link, jobs[rank], options[rank], silent);
  });
  for (const std::exception_ptr& error : errors) {
    if (!error) return {};
    try {
      std::rethrow_exception(error);
    } catch (const E& one) {
      said.push_back(one.sentences());
    }
  }
  for (const auto& one : said) EXPECT_EQ(one, said[0]);
  return said.at(0);
}

std::vector<std::string> unlike(const Job& first, const Job& second) {
  return refused<StartedUnlikeError>({first, second}, std::vector<TrainOptions>(2));
}

/// `job` with another value of `key`, whatever the key is.
Job with_another(Job job, std::string_view key) {
  const std::string before = get(job, key);
  for (const char* value : {"1", "0", "2", "0.5", "another"}) {
    try {
      set(job, key, value);
    } catch (const ConfigError&) {
      continue;
    }
    if (get(job, key) != before) return job;
  }
  ADD_FAILURE() << "no other value of " << key;
  return job;
}

TEST(Agreement, IsAskedForEveryKey) {
  for (const Key& key : keys()) {
    if (!key.may_differ.empty()) continue;
    const Job one = small_job();
    const Job other = with_another(one, key.name);
    const std::vector<std::string> said = unlike(one, other);
    ASSERT_EQ(said.size(), 1U) << key.name;
    const auto value = [&](const Job& job) {
      const std::string text = get(job, key.name);
      return text.empty() ? "(empty)" : text;
    };
    EXPECT_EQ(said[0], "rank 1 has " + std::string(key.name) + " = " + value(other) +
                           ", rank 0 has " + value(one) + ".");
  }
}

TEST(Agreement, NamesAllKeysThatDifferAtOnce) {
  Job other = small_job();
  std::size_t changed = 0;
  for (const Key& key : keys()) {
    other = with_another(other, key.name);
    changed += key.may_differ.empty() ? 1 : 0;
  }
  EXPECT_EQ(unlike(small_job(), other).size(), changed);
}

TEST(Agreement, LeavesFewKeysOutAndSaysWhy) {
  std::set<std::string> out;
  for (const Key& key : keys())
    if (!key.may_differ.empty()) out.insert(std::string(key.name));
  EXPECT_EQ(out, (std::set<std::string>{"folder", "threads"}));
  Job other = small_job();
  other.folder = "/elsewhere";
  other.threads = 2;
  EXPECT_EQ(unlike(small_job(), other), std::vector<std::string>{});
}

TEST(Agreement, IsAskedForWhatElseTheRanksDoTogether) {
  const Job job = small_job();
  const Folder folder;
  const TrainOptions plain;
  const TrainOptions options[] = {
      {.checkpoints = folder.path()},
      {.resume = true},
      {.record = {.file = folder.path() / "g", .steps = {}, .ranks = {}}},
      {.record = {.file = {}, .steps = {3}, .ranks = {}}},
      {.record = {.file = {}, .steps = {}, .ranks = {1}}}};
  for (const TrainOptions& one : options)
    EXPECT_EQ(refused<StartedUnlikeError>({job, job}, {plain, one}).size(), 1U);
}

TEST(Agreement, IsAskedForTheData) {
  const Folder here;
  const Folder there;
  for (const Folder* folder : {&here, &there})
    data::write_idx(folder->path(), 64, 16, /*packed=*/false);
  Job one = small_job();
  one.data = "fashion-mnist";
  one.model = "mlp:hidden=8";
  one.folder = here.path();
  one.steps = 1;
  Job other = one;
  other.folder = there.path();
  EXPECT_EQ(unlike(one, other), std::vector<std::string>{});
  const auto pixels = there.path() / "train-images-idx3-ubyte";
  data::ByteString bytes = data::bytes_of(pixels);
  bytes.back() ^= 1;
  data::write_file(pixels, bytes);
  const std::vector<std::string> said = unlike(one, other);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("fingerprint of the data"), std::string::npos) << said[0];
  data::write_idx(there.path(), 60, 16, /*packed=*/false);
  EXPECT_EQ(unlike(one, other).at(0), "rank 1 has training samples = 60, rank 0 has 64.");
}

// ---- damage on the way

/// Turns a bit of one weight, on one rank, once `at` steps are taken.
TrainOptions flip(std::uint64_t at, std::filesystem::path checkpoints = {}) {
  TrainOptions options;
  options.checkpoints = std::move(checkpoints);
  options.testing_only_damage = [at](std::uint64_t step, const std::string& name,
                                     std::span<float> weights) {
    if (step != at || name != "first.weight") return;
    auto bits = std::bit_cast<std::uint32_t>(weights[17]);
    weights[17] = std::bit_cast<float>(bits ^ (1U << 20));
  };
  return options;
}

std::vector<std::string> drift(const Job& job, std::uint64_t at,
                               const std::filesystem::path& checkpoints = {}) {
  TrainOptions undamaged;
  undamaged.checkpoints = checkpoints;
  return refused<DriftError>({job, job, job},
                             {undamaged, undamaged, flip(at, checkpoints)});
}

TEST(Agreement, IsAskedForTheInitialWeights) {
  const Job job = small_job();
  const std::vector<std::string> said =
      refused<StartedUnlikeError>({job, job, job}, {{}, flip(0), {}});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].find("rank 1 has hash of the weights first.weight = "), 0U)
      << said[0];
  EXPECT_NE(said[0].find(", ranks 0 and 2 have "), std::string::npos);
}

TEST(Drift, NamesTheTensorAndTheRanks) {
  Job job = small_job();
  job.check_every = 2;
  const std::vector<std::string> said = drift(job, 3);
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0].find("After 4 steps the ranks no longer have the same; after 2"), 0U)
      << said[0];
  EXPECT_EQ(said[1].find("rank 2 has hash of the weights first.weight = "), 0U)
      << said[1];
  EXPECT_NE(said[1].find(", ranks 0 and 1 have "), std::string::npos);
}

TEST(Drift, IsFoundAtTheNextCheckAndAtTheEnd) {
  for (const std::int64_t every : {1, 2, 3, 5, 100})
    for (const std::uint64_t at : {1, 4, 8}) {
      Job job = small_job();
      job.check_every = every;
      const auto step = static_cast<std::uint64_t>(every);
      const std::uint64_t seen =
          std::min<std::uint64_t>((at + step - 1) / step * step, 8);
      EXPECT_EQ(drift(job, at).at(0).find("After " + std::to_string(seen) + " steps"), 0U)
          << every << " " << at;
    }
}

TEST(Drift, OfTheOptimizerIsNamedToo) {
  Job job = small_job();
  job.check_every = 4;
  job.exchange = "gradients";
  job.weight_decay = 0.01;  // by which the weight's error gets into the momentum
  job.density = 1;
  const std::vector<std::string> said = drift(job, 1);
  ASSERT_EQ(said.size(), 3U);
  EXPECT_NE(said[2].find("hash of the optimizer's momentum of first.weight"),
            std::string::npos)
      << said[2];
}

TEST(Drift, IsNotLookedForWhereItIsNotWanted) {
  Job job = small_job();
  job.check_every = 0;
  EXPECT_EQ(drift(job, 3), std::vector<std::string>{});
}

TEST(Drift, IsNeverSaved) {
  Job job = small_job();
  job.checkpoint_every = 2;
  const Folder folder;
  EXPECT_FALSE(drift(job, 3, folder.path()).empty());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step-2"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "step-4"));
}

TEST(Drift, IsLookedForBetweenRoundsOfLocalStepsOnly) {
  Job job = small_job();
  job.scheme = "dense";
  job.optimizer = "adam";  // whose state is each rank's own
  job.local_steps = 3;
  job.check_every = 1;
  EXPECT_EQ(train_on(3, job).steps, 8U);
  EXPECT_EQ(drift(job, 3).at(0).find("After 3 steps"), 0U);
  job.check_every = 4;
  EXPECT_EQ(drift(job, 3).at(0).find("After 6 steps"), 0U) << "the next end of a round";
}

TEST(Drift, ChecksChangeNoBits) {
  Job job = small_job();
  job.check_every = 0;
  const std::string never = train_on(2, job).weights_hash;
  job.check_every = 1;
  EXPECT_EQ(train_on(2, job).weights_hash, never);
}

}  // namespace
}  // namespace topknot::train

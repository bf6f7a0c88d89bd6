// SPDX-License-Identifier: Apache-2.0
//
// scheme=auto in whole runs: on threads as they are, and with a slow link between them.
#include <gtest/gtest.h>

#include <thread>

#include "runs.h"
#include "topknot/transports.h"
#include "transports/held_back.h"

namespace topknot::train::testing {
namespace {

Job small_job(const std::string& scheme) {
  Job job;
  job.model = "mlp";
  job.data = "generated:size=256";
  job.scheme = scheme;
  job.batch = 8;
  job.steps = 4;
  job.timeout = 60;
  return job;
}

/// Rank 0's account of a run.
struct Account final : Observer {
  void on_start(const Start& told) override { start = told; }
  Start start;
  Outcome outcome;
};

/// Two ranks with a link of 20 MB/s between them: a dense step takes 80 ms for it.
std::vector<Account> train_slowly(const Job& job, const TrainOptions& options = {}) {
  Network network;
  network.between = {.bandwidth = 20e6, .latency = 1e-5};
  const auto links = make_held_back(make_inproc(2), network);
  std::vector<Account> accounts(2);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      accounts[rank].outcome = train(*links[rank], job, options, accounts[rank]);
    });
  threads.clear();
  EXPECT_EQ(accounts[0].outcome.weights_hash, accounts[1].outcome.weights_hash);
  EXPECT_EQ(accounts[0].start.job.auto_choice, accounts[1].start.job.auto_choice);
  return accounts;
}

TEST(TrainAuto, TakesKnotOverASlowLinkAndEndsInItsBits) {
  Job job = small_job("auto");
  job.density = 0.01;
  const auto accounts = train_slowly(job);
  EXPECT_EQ(accounts[0].start.job.scheme, "knot");
  ASSERT_EQ(accounts[0].start.measured.size(), accounts[0].start.buckets.size());
  EXPECT_GT(accounts[0].start.measured[0].dense_seconds,
            2 * accounts[0].start.measured[0].sparse_seconds);
  job.scheme = "knot";
  EXPECT_EQ(accounts[0].outcome.weights_hash, train_on(2, job).weights_hash)
      << "what was measured has left nothing behind";
}

TEST(TrainAuto, TakesTheDefaultRoundsOverASlowLink) {
  const auto accounts = train_slowly(small_job("auto"));
  EXPECT_EQ(accounts[0].start.job.local_steps, 4);
  EXPECT_EQ(accounts[0].outcome.weights_hash,
            train_on(2, small_job("knot")).weights_hash);
}

TEST(TrainAuto, OneWorkerTrainsAsDense) {
  EXPECT_EQ(train_on(1, small_job("auto")).weights_hash,
            train_on(1, small_job("dense")).weights_hash);
}

TEST(TrainAuto, AResumedRunKeepsWhatWasDecided) {
  const Folder folder;
  Job job = small_job("auto");
  job.density = 0.01;
  job.bucket_mb = 0.1;
  job.checkpoint_every = 2;
  train_slowly(job, {.checkpoints = folder.path()});
  job.steps = 6;
  std::vector<Start> starts(2);
  topknot::testing::run(2, [&](Transport& link) {  // now without the slow link
    Account account;
    train(link, job, {.checkpoints = folder.path(), .resume = true}, account);
    starts[static_cast<std::size_t>(link.rank())] = account.start;
  });
  EXPECT_EQ(starts[0].job.scheme, "knot");
  EXPECT_TRUE(starts[0].measured.empty());
  EXPECT_EQ(starts[0].notices.front(),
            "auto takes knot, as was decided when the run began.");
}

}  // namespace
}  // namespace topknot::train::testing

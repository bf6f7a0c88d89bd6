// SPDX-License-Identifier: Apache-2.0
//
// Runs whose folder of checkpoints fails.
#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "topknot/error.h"
#include "train/runs.h"

namespace topknot::train {
namespace {

using testing::Folder;
using topknot::testing::run;

/// Nine steps with a checkpoint after each.
Job small_job() {
  Job job;
  job.name = "small";
  job.model = "mlp:hidden=8";
  job.data = "generated:classes=4,size=320,seed=3,side=8";
  job.batch = 8;
  job.steps = 9;
  job.checkpoint_every = 1;
  job.local_steps = 1;  // a checkpoint is due at the end of a round
  return job;
}

/// Puts a file in the place of the folder after every checkpoint, and the folder back after so
/// many failures.
class Saboteur final : public Observer {
 public:
  Saboteur(std::filesystem::path folder, int repairs_after)
      : folder_(std::move(folder)), repairs_after_(repairs_after) {}

  void on_checkpoint(std::uint64_t, double) override {
    ++written;
    std::filesystem::rename(folder_, aside());
    std::ofstream(folder_) << "no folder";
  }
  void on_checkpoint_failed(const std::string&) override {
    if (++failed % repairs_after_ != 0) return;
    std::filesystem::remove(folder_);
    std::filesystem::rename(aside(), folder_);
  }

  int written = 0;
  int failed = 0;

 private:
  std::filesystem::path aside() const { return folder_.string() + ".aside"; }

  const std::filesystem::path folder_;
  const int repairs_after_;
};

TEST(CheckpointPolicy, EndsTheRunAtTheThirdFailureInARow) {
  const Folder folder;
  const auto checkpoints = folder.path() / "checkpoints";
  Saboteur saboteur(checkpoints, 3);
  EXPECT_THROW(run(1,
                   [&](Transport& link) {
                     train(link, small_job(), {.checkpoints = checkpoints}, saboteur);
                   }),
               StorageError);
  EXPECT_EQ(saboteur.written, 1);
  EXPECT_EQ(saboteur.failed, 2);
}

TEST(CheckpointPolicy, CountsFailuresFromTheLastSuccess) {
  const Folder folder;
  const auto checkpoints = folder.path() / "checkpoints";
  Saboteur saboteur(checkpoints, 2);
  run(1, [&](Transport& link) {
    EXPECT_EQ(train(link, small_job(), {.checkpoints = checkpoints}, saboteur).steps, 9U);
  });
  EXPECT_EQ(saboteur.written, 3);
  EXPECT_EQ(saboteur.failed, 6);
}

}  // namespace
}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "store/background_save.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "store/saves.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

using namespace topknot::store::testing;

/// What training changes while a checkpoint of it is written.
struct LiveMemory {
  std::vector<float> weights = std::vector<float>(6);
  std::vector<float> residual = std::vector<float>(kLength);

  void set(std::uint64_t step, int rank) {
    for (float& x : weights) x = static_cast<float>(step);
    for (std::size_t i = 0; i < kLength; ++i) residual[i] = number_of(step, rank, i);
  }
};

/// Starts to save views of `live`, which are as shared_of() and own_of() make them.
void start(BackgroundSave& saves, const LiveMemory& live, std::uint64_t step) {
  Container shared;
  shared.view("conv.weight", std::span<const float>(live.weights), {2, 3});
  shared.keep("position", step);
  Container own;
  own.view("conv.weight/memory.residual", std::span<const float>(live.residual));
  mark_folded(own, "conv.weight/memory.residual");
  own.keep("conv.weight/compressor.threshold", 0.5F + static_cast<float>(step));
  saves.start(step, std::move(shared), std::move(own), {"c0", "m0"});
}

TEST(BackgroundSave, SavesWhatThereWasWhileMemoryAndMessagesGoOn) {
  MemoryFiles files;
  run(3, [&](Transport& link) {
    const auto other = link.channel(1);
    const auto own = link.channel(2);
    CheckpointFolder folder(files, "c");
    BackgroundSave saves(folder, *own);
    LiveMemory live;
    for (std::uint64_t step = 1; step <= 20; ++step) {
      live.set(step, link.rank());
      if (step % 5 == 0) {
        if (saves.is_under_way()) {
          EXPECT_EQ(saves.finish().step, step - 5);
        }
        start(saves, live, step);
      }
      live.set(1000 + step, link.rank());
      std::vector<std::byte> in;
      const std::vector<std::byte> out(100);
      const Pending sent = other->send((link.rank() + 1) % 3, out);
      other->wait(other->recv((link.rank() + 2) % 3, in, 100));
      other->wait(sent);
    }
    EXPECT_EQ(saves.finish().step, 20U);
    EXPECT_FALSE(saves.is_under_way());
    EXPECT_GE(saves.most_bytes(), kLength * sizeof(float));
  });
  EXPECT_EQ(load(files, "c", 3), 20U);
  EXPECT_EQ(CheckpointFolder(files, "c").steps(), (std::vector<std::uint64_t>{20, 15}));
}

TEST(BackgroundSave, HoldsTheCallerUpForNoCallOfTheDisk) {
  MemoryFiles files;
  std::atomic<bool> disk_answers = false;
  files.watch = [&](const std::string& call, const std::string&) {
    while (call == "Sync" && !disk_answers)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  run(1, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    BackgroundSave saves(folder, link);
    LiveMemory live;
    live.set(7, 0);
    start(saves, live, 7);  // returns, though no sync does
    EXPECT_FALSE(saves.is_done());
    EXPECT_THROW(start(saves, live, 8), ContractError);
    live.set(8, 0);
    disk_answers = true;
    EXPECT_EQ(saves.finish().step, 7U);
  });
  EXPECT_EQ(load(files, "c", 1), 7U);
}

TEST(BackgroundSave, ThrowsWhatTheDiskSaidOnAllRanksAndKeepsTheLastCheckpoint) {
  MemoryFiles files;
  save_all(files, "c", 2, {1});
  files.watch = [](const std::string& call, const std::string& path) {
    if (call == "Sync" && path.ends_with("shard-1.safetensors"))
      throw StorageError("The disk is full.");
  };
  const auto errors = run_to_the_end(2, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    folder.load(link);
    BackgroundSave saves(folder, link);
    LiveMemory live;
    live.set(2, link.rank());
    start(saves, live, 2);
    saves.finish();
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), StorageError);
  }
  files.watch = nullptr;
  EXPECT_EQ(load(files, "c", 2), 1U);
}

TEST(BackgroundSave, IsWaitedForWhenItsOwnerLeaves) {
  MemoryFiles files;
  run(2, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    BackgroundSave saves(folder, link);
    LiveMemory live;
    live.set(4, link.rank());
    start(saves, live, 4);
  });
  EXPECT_EQ(load(files, "c", 2), 4U);
}

}  // namespace
}  // namespace topknot::store

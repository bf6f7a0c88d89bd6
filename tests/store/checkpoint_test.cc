// SPDX-License-Identifier: Apache-2.0
#include "store/checkpoint.h"

#include <gtest/gtest.h>

#include "refusal.h"
#include "store/saves.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

using namespace topknot::store::testing;

std::string sentence_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

TEST(Checkpoint, BringsBackWhatEveryRankSaved) {
  for (const int ranks : {1, 2, 3, 4}) {
    MemoryFiles files;
    save_all(files, "run/checkpoints", ranks, {3});
    EXPECT_EQ(load(files, "run/checkpoints", ranks), 3U);
  }
}

TEST(Checkpoint, WorksOnTheMachinesDisk) {
  const std::string path = ::testing::TempDir() + "topknot-checkpoint-test/deep/down";
  run(3, [&](Transport& link) {
    CheckpointFolder folder(disk(), path);
    folder.clear(link);
    for (const std::uint64_t step : {1, 2, 3, 3, 12}) save(folder, link, step);
  });
  EXPECT_EQ(load(disk(), path, 3), 12U);
  EXPECT_EQ(load(disk(), path, 2), 12U);
  EXPECT_EQ(disk().list(path), (std::vector<std::string>{"lock", "step-12", "step-3"}));
}

TEST(Checkpoint, KeepsAsManyAsItWasTold) {
  MemoryFiles files;
  run(2, [&](Transport& link) {
    CheckpointFolder folder(files, "c", 3);
    for (std::uint64_t step = 0; step < 15; ++step) save(folder, link, step);
  });
  EXPECT_EQ(CheckpointFolder(files, "c").steps(),
            (std::vector<std::uint64_t>{14, 13, 12}));
  EXPECT_REFUSAL(CheckpointFolder(files, "c", 1), ConfigError,
                 "At least 2 checkpoints must be kept, not 1: while one is written the "
                 "other is all there is.");
}

TEST(Checkpoint, SaysWhatWasFoundWhenThereIsNone) {
  MemoryFiles files;
  const auto errors = run_to_the_end(2, [&](Transport& link) {
    CheckpointFolder folder(files, "nowhere");
    EXPECT_REFUSAL(
        folder.load(link), NoCheckpointError,
        "Rank 0: There is no usable checkpoint to resume from in nowhere: it has none.");
    folder.load(link);
  });
  for (const auto& error : errors)
    EXPECT_NE(sentence_of(error).find("nowhere: it has none"), std::string::npos);
  save_all(files, "c", 2, {7});
  files.raw("c/step-7/shard-1.safetensors").back() ^= std::byte{1};
  const auto damaged = run_to_the_end(
      2, [&](Transport& link) { CheckpointFolder(files, "c").load(link); });
  for (const auto& error : damaged)
    EXPECT_NE(sentence_of(error).find("shard-1.safetensors is not the file"),
              std::string::npos)
        << sentence_of(error);
}

TEST(Checkpoint, RefusesAnotherModel) {
  MemoryFiles files;
  save_all(files, "c", 2, {1, 2});
  run(2, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    EXPECT_REFUSAL(folder.load(link, "another"), ConfigError,
                   "The checkpoint c/step-2 is of the model m0, not of another.");
    EXPECT_EQ(folder.load(link).manifest.step, 2U);
  });
}

TEST(Checkpoint, StepsBackOnAllRanksWhenOneCannotRead) {
  for (int broken = 0; broken < 3; ++broken) {
    MemoryFiles files;
    save_all(files, "c", 3, {10, 20});
    files.raw("c/step-20/shard-" + std::to_string(broken) + ".safetensors")[9] ^=
        std::byte{4};
    EXPECT_EQ(load(files, "c", 3), 10U);
  }
}

TEST(Checkpoint, RefusesToMixWithSomebodyElsesRun) {
  MemoryFiles files;
  save_all(files, "c", 2, {10, 20});
  run(2, [&](Transport& link) {
    CheckpointFolder fresh(files, "c");
    EXPECT_REFUSAL(
        save(fresh, link, 5), ConfigError,
        "The folder c has a checkpoint of step 20, and this run is at step 5 without "
        "having resumed from it: resume from it, remove it, or choose another folder.");
  });
  EXPECT_EQ(load(files, "c", 2), 20U);
}

TEST(Checkpoint, ReplacesTheStepsItWentBackBehind) {
  MemoryFiles files;
  save_all(files, "c", 2, {10, 20});
  files.raw("c/step-20/manifest")[0] = std::byte{'T'};
  run(2, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    EXPECT_EQ(folder.load(link).manifest.step, 10U);
    save(folder, link, 15);
    save(folder, link, 15);
  });
  EXPECT_EQ(files.list("c"), (std::vector<std::string>{"lock", "step-10", "step-15"}));
  EXPECT_EQ(load(files, "c", 2), 15U);
}

TEST(Checkpoint, FailsOnAllRanksWhenTheirStepsDiffer) {
  MemoryFiles files;
  const auto errors = run_to_the_end(3, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    save(folder, link, link.rank() == 2 ? 8 : 7);
  });
  for (const auto& error : errors)
    EXPECT_EQ(sentence_of(error), "Rank 2 saves step 8 where rank 0 saves step 7.");
}

TEST(Checkpoint, FoldsResidualsSoThatTheirMeanIsKept) {
  for (const int before : {1, 2, 3, 4, 8})
    for (const int after : {1, 2, 3, 4, 8}) {
      MemoryFiles files;
      save_all(files, "c", before, {1});
      std::vector<double> mean(kLength);
      std::mutex mutex;
      run(after, [&](Transport& link) {
        const Loaded loaded = CheckpointFolder(files, "c").load(link);
        EXPECT_EQ(loaded.resized, before != after);
        EXPECT_EQ(loaded.own.has("conv.weight/compressor.threshold"), before == after);
        if (!loaded.own.has("conv.weight/memory.residual")) {
          EXPECT_GE(link.rank(), before);
          return;
        }
        EXPECT_TRUE(is_folded(loaded.own, "conv.weight/memory.residual"));
        const auto residual = loaded.own.values<float>("conv.weight/memory.residual");
        const std::scoped_lock lock(mutex);
        for (std::size_t i = 0; i < kLength; ++i) mean[i] += residual[i] / double(after);
      });
      for (std::size_t i = 0; i < kLength; ++i) {
        double expected = 0;
        for (int w = 0; w < before; ++w) expected += number_of(1, w, i) / double(before);
        EXPECT_NEAR(mean[i], expected, 1e-6 * expected) << before << " -> " << after;
      }
    }
}

TEST(Checkpoint, AveragesEstimatesOverTheRanksThatARankTakesOver) {
  const std::string name = "conv.weight/memory.square";
  for (const int before : {1, 2, 3, 4, 8})
    for (const int after : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(std::to_string(before) + " -> " + std::to_string(after));
      MemoryFiles files;
      run(before, [&](Transport& link) {
        Container own;
        own.keep(name, std::vector<float>{static_cast<float>(1 + link.rank())});
        mark_averaged(own, name);
        CheckpointFolder(files, "c")
            .save(link, 1, shared_of(1), std::move(own), {"c0", "m0"});
      });
      run(after, [&](Transport& link) {
        const Loaded loaded = CheckpointFolder(files, "c").load(link);
        float sum = 0;
        int count = 0;
        for (int w = link.rank(); w < before; w += after, ++count)
          sum += static_cast<float>(1 + w);
        const float expected = count > 0 ? sum / static_cast<float>(count)
                                         : static_cast<float>(1 + link.rank() % before);
        EXPECT_FLOAT_EQ(loaded.own.values<float>(name)[0], expected);
        EXPECT_TRUE(is_averaged(loaded.own, name));
      });
    }
}

TEST(Checkpoint, FoldsOnlyFloats) {
  Container own;
  own.keep("count", std::uint64_t{3});
  EXPECT_REFUSAL(mark_folded(own, "count"), ContractError,
                 "Only F32 can be folded, and 'count' is U64.");
  EXPECT_REFUSAL(mark_folded(own, "nothing"), DataError,
                 "The checkpoint has nothing called 'nothing'.");
}

TEST(Checkpoint, CannotBePublishedByAnOlderRun) {
  MemoryFiles files;
  run(2, [&](Transport& link) {
    CheckpointFolder older(files, "c");
    save(older, link, 1);
    CheckpointFolder newer(files, "c");
    newer.take(link);
    EXPECT_THROW(save(older, link, 2), StorageError);
    EXPECT_EQ(newer.load(link).manifest.step, 1U);
    save(newer, link, 2);
    EXPECT_THROW(save(older, link, 3), StorageError);
    EXPECT_EQ(newer.steps(), (std::vector<std::uint64_t>{2, 1}));
  });
}

// The older run is stopped before its n-th call, for every n; the newer one takes the
// folder, loads and saves; then the older goes on.
TEST(Checkpoint, CannotBePublishedByAnOlderRunThatSleptAnywhere) {
  bool slept = true;
  for (std::uint64_t at = 0; slept; ++at) {
    MemoryFiles files;
    slept = false;
    std::uint64_t resumed = 0;
    run(1, [&](Transport& link) {
      CheckpointFolder older(files, "c");
      save(older, link, 1);
      save(older, link, 2);
      std::uint64_t call = 0;
      files.watch = [&](const std::string&, const std::string&) {
        if (call++ != at) return;
        files.watch = nullptr;
        slept = true;
        run(1, [&](Transport& other) {
          CheckpointFolder newer(files, "c");
          newer.take(other);
          resumed = newer.load(other).manifest.step;
          save(newer, other, 100);
          save(newer, other, 101);
        });
      };
      try {
        save(older, link, 3);
        EXPECT_TRUE(!slept || resumed == 3) << "published after call " << at;
      } catch (const StorageError&) {
        EXPECT_TRUE(slept);
      }
      files.watch = nullptr;
    });
    if (!slept) break;
    EXPECT_EQ(load(files, "c", 1), 101U) << "call " << at;
    EXPECT_EQ(CheckpointFolder(files, "c").steps(),
              (std::vector<std::uint64_t>{101, 100}))
        << "call " << at;
  }
}

}  // namespace
}  // namespace topknot::store

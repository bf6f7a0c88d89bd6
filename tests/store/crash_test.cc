// SPDX-License-Identifier: Apache-2.0
//
// A run is killed at its first call to the file system, then at its second, and so on to
// the last; the same with a call that is refused. Afterwards the power fails, in five
// ways. What was saved before must be there, what is there must be whole, and the next
// run must be able to save.

#include <gtest/gtest.h>

#include <atomic>

#include "store/saves.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

using namespace topknot::store::testing;
using Fault = MemoryFiles::Fault;
using Loss = MemoryFiles::Loss;

constexpr Loss kLosses[] = {Loss::nothing, Loss::unsynced_bytes, Loss::unsynced_names,
                            Loss::unsynced_folders, Loss::all_unsynced};

/// Goes on from what is there and saves the same step again, a later one and one later
/// still.
void go_on(Files& files, int ranks, std::atomic<std::uint64_t>& confirmed) {
  run_to_the_end(ranks, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    folder.take(link);
    const std::uint64_t from = folder.load(link).manifest.step;
    for (const std::uint64_t step : {from, from + 1, from + 2}) {
      save(folder, link, step);
      if (link.rank() == 0) confirmed = step;
    }
  });
}

void expect_next_run_saves(MemoryFiles& files, int ranks) {
  run(ranks, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    folder.take(link);
    folder.load(link);
    save(folder, link, 50);
    save(folder, link, 60);
  });
  EXPECT_EQ(files.list("c"), (std::vector<std::string>{"lock", "step-50", "step-60"}));
  EXPECT_EQ(load(files, "c", ranks), 60U);
}

TEST(Crash, AnywhereLeavesAWholeCheckpoint) {
  int kills = 0;
  for (const int ranks : {1, 2, 3})
    for (const Loss loss : kLosses)
      for (std::uint64_t at = 0;; ++at) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, call " + std::to_string(at) +
                     ", loss " + std::to_string(static_cast<int>(loss)));
        MemoryFiles files;
        save_all(files, "c", ranks, {1, 2});
        std::atomic<std::uint64_t> confirmed = 2;
        files.arm(Fault::kill, at);
        go_on(files, ranks, confirmed);
        const bool killed = files.calls() > at;
        files.restart(loss);
        const std::uint64_t found = load(files, "c", ranks);
        ASSERT_GE(found, confirmed);
        ASSERT_LE(found, confirmed + 1);
        expect_next_run_saves(files, ranks);
        if (::testing::Test::HasFailure()) return;
        if (!killed) break;
        ++kills;
      }
  EXPECT_GT(kills, 1000);
}

TEST(Crash, InTheVeryFirstSaveLeavesNothingOrAll) {
  for (const Loss loss : kLosses)
    for (std::uint64_t at = 0;; ++at) {
      MemoryFiles files;
      files.arm(Fault::kill, at);
      run_to_the_end(2, [&](Transport& link) {
        CheckpointFolder folder(files, "c");
        save(folder, link, 1);
      });
      const bool killed = files.calls() > at;
      files.restart(loss);
      try {
        EXPECT_EQ(load(files, "c", 2), 1U);
      } catch (const NoCheckpointError&) {
        EXPECT_TRUE(killed);
      }
      if (!killed) break;
      save_all(files, "c", 2, {5});
      EXPECT_EQ(load(files, "c", 2), 5U) << at;
    }
}

// True when no rank threw; false when all threw StorageError. Anything else is a failure.
bool all_or_none(const std::vector<std::exception_ptr>& errors) {
  std::size_t storage = 0;
  std::size_t none = 0;
  for (const std::exception_ptr& error : errors) {
    try {
      if (error) std::rethrow_exception(error);
      ++none;
    } catch (const StorageError&) {
      ++storage;
    }
  }
  EXPECT_TRUE(none == errors.size() || storage == errors.size());
  return none == errors.size();
}

TEST(Refusal, AtAnyCallFailsTheSaveOnAllRanksAndNothingElse) {
  for (const char* reason :
       {"No space left on device", "Input/output error", "Too many open files"})
    for (const int ranks : {1, 2, 3})
      for (std::uint64_t at = 0;; ++at) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, call " + std::to_string(at));
        MemoryFiles files;
        save_all(files, "c", ranks, {1, 2});
        bool refused = true;
        run(ranks, [&](Transport& link) {
          CheckpointFolder folder(files, "c");
          folder.load(link);
          if (link.rank() == 0) files.arm(Fault::refuse, at, reason);
          std::string sentence;
          try {
            save(folder, link, 3);
          } catch (const StorageError& error) {
            sentence = error.what();
          }
          // The others wait for rank 0 to begin the next.
          if (link.rank() == 0) {
            refused = files.calls() > at;
            files.arm(Fault::none, 0);
          }
          if (!sentence.empty()) {
            EXPECT_NE(sentence.find(reason), std::string::npos) << sentence;
          }
          save(folder, link, 4);
        });
        EXPECT_EQ(load(files, "c", ranks), 4U);
        if (::testing::Test::HasFailure()) return;
        if (!refused) break;
      }
}

TEST(Refusal, LeavesTheOlderCheckpointWhateverThePowerDoes) {
  for (const Loss loss : kLosses)
    for (std::uint64_t at = 0;; ++at) {
      SCOPED_TRACE("call " + std::to_string(at));
      MemoryFiles files;
      save_all(files, "c", 2, {1, 2});
      files.arm(Fault::refuse, at, "Input/output error");
      const bool saved = all_or_none(run_to_the_end(2, [&](Transport& link) {
        CheckpointFolder folder(files, "c");
        folder.load(link);
        for (const std::uint64_t step : {2, 3}) save(folder, link, step);
      }));
      const bool refused = files.calls() > at;
      files.restart(loss);
      const std::uint64_t found = load(files, "c", 2);
      EXPECT_TRUE(found == 3 || (found == 2 && !saved)) << found;
      if (::testing::Test::HasFailure()) return;
      if (!refused) break;
    }
}

TEST(Refusal, OfOneRankRemovesWhatTheOthersWrote) {
  MemoryFiles files;
  save_all(files, "c", 3, {1});
  files.watch = [](const std::string& call, const std::string& path) {
    if (call == "Sync" && path.ends_with("shard-2.safetensors"))
      throw StorageError("Sync of " + path + " was refused: Input/output error.");
  };
  const auto errors = run_to_the_end(3, [&](Transport& link) {
    CheckpointFolder folder(files, "c");
    save(folder, link, 2);
  });
  EXPECT_FALSE(all_or_none(errors));
  EXPECT_EQ(files.list("c"), (std::vector<std::string>{"lock", "step-1"}));
}

}  // namespace
}  // namespace topknot::store

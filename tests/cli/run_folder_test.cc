// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <gtest/gtest.h>

#include "cli/folders.h"
#include "refusal.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;
using test::read_text;
using test::ScratchFolder;
using test::write_text;

const Json kRun = {{"started", "now"}};

void leave_a_run(const fs::path& folder) {
  write_text(folder / "run.json", R"({"started": "then"})");
  write_text(folder / "steps.jsonl", "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
  write_text(folder / "epochs.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  write_text(folder / "result.json", "{}");
  write_text(folder / "events.out.tfevents.1", "x");
  write_text(folder / "checkpoints" / "step", "2");
  write_text(folder / "notes.txt", "mine");
}

TEST(CutBack, KeepsTheStepsBelow) {
  const ScratchFolder folder;
  const fs::path file = folder.path() / "lines";
  write_text(file, "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
  cut_back(file, 2);
  EXPECT_EQ(read_text(file), "{\"step\":0}\n{\"step\":1}\n");
  cut_back(file, 100);
  EXPECT_EQ(read_text(file), "{\"step\":0}\n{\"step\":1}\n");
  cut_back(file, 0);
  EXPECT_EQ(read_text(file), "");
  cut_back(folder.path() / "none", 1);
  EXPECT_FALSE(fs::exists(folder.path() / "none"));
}

TEST(CutBack, DropsATornLine) {
  const ScratchFolder folder;
  const fs::path file = folder.path() / "lines";
  write_text(file, "{\"step\":0}\n{\"step\":1");
  cut_back(file, 5);
  EXPECT_EQ(read_text(file), "{\"step\":0}\n");
  write_text(file, "{\"step\":0}\n{\"step\":1}");  // whole, but was its newline written?
  cut_back(file, 5);
  EXPECT_EQ(read_text(file), "{\"step\":0}\n");
}

TEST(RunFolder, RefusesOneWithARunAndTouchesNothing) {
  const ScratchFolder folder;
  leave_a_run(folder.path());
  EXPECT_REFUSAL(RunFolder(folder.path(), FolderUse::fresh), ConfigError,
                 "There is a run in " + folder.path().string() +
                     " already: resume it by --resume, replace it by --overwrite, or "
                     "name another --out.");
  EXPECT_EQ(read_text(folder.path() / "checkpoints" / "step"), "2");
}

TEST(RunFolder, MayExistWithoutARun) {
  const ScratchFolder folder;
  write_text(folder.path() / "notes.txt", "mine");
  RunFolder run(folder.path(), FolderUse::fresh);
  run.begin(kRun, 0);
  run.add_step({{"step", 0}});
  EXPECT_EQ(read_text(folder.path() / "steps.jsonl"), "{\"step\":0}\n");
  EXPECT_EQ(read_text(folder.path() / "notes.txt"), "mine");
}

TEST(RunFolder, IsMadeWithThoseAboveIt) {
  const ScratchFolder folder;
  RunFolder run(folder.path() / "a" / "b", FolderUse::fresh);
  run.begin(kRun, 0);
  EXPECT_TRUE(fs::exists(folder.path() / "a" / "b" / "run.json"));
}

TEST(RunFolder, ThatIsAFileIsRefused) {
  const ScratchFolder folder;
  write_text(folder.path() / "file", "");
  EXPECT_REFUSAL(
      RunFolder(folder.path() / "file", FolderUse::fresh), ConfigError,
      "--out " + (folder.path() / "file").string() + " is not a folder; name one.");
}

TEST(RunFolder, OverwritesAllOfTheRunAndNothingElse) {
  const ScratchFolder folder;
  leave_a_run(folder.path());
  RunFolder run(folder.path(), FolderUse::overwrite);
  EXPECT_FALSE(fs::exists(folder.path() / "checkpoints"));
  run.begin(kRun, 0);
  EXPECT_EQ(read_text(folder.path() / "steps.jsonl"), "");
  EXPECT_EQ(Json::parse(read_text(folder.path() / "run.json")), kRun);
  for (const char* gone :
       {"result.json", "events.out.tfevents.1", "checkpoints", "checkpoints.overwritten"})
    EXPECT_FALSE(fs::exists(folder.path() / gone)) << gone;
  EXPECT_EQ(read_text(folder.path() / "notes.txt"), "mine");
}

TEST(RunFolder, PutsEverythingBackWhenTrainingNeverBegan) {
  const ScratchFolder folder;
  leave_a_run(folder.path());
  {
    const RunFolder run(folder.path(), FolderUse::overwrite);
    write_text(folder.path() / "checkpoints" / "owner", "the new one");
  }
  EXPECT_EQ(read_text(folder.path() / "checkpoints" / "step"), "2");
  EXPECT_FALSE(fs::exists(folder.path() / "checkpoints" / "owner"));
  EXPECT_EQ(read_text(folder.path() / "run.json"), R"({"started": "then"})");
  EXPECT_TRUE(fs::exists(folder.path() / "result.json"));
}

TEST(RunFolder, ResumesFromTheStepOfTheCheckpoint) {
  const ScratchFolder folder;
  leave_a_run(folder.path());
  RunFolder run(folder.path(), FolderUse::resume);
  run.begin(kRun, 2);
  run.add_step({{"step", 2}, {"again", true}});
  EXPECT_EQ(read_text(folder.path() / "steps.jsonl"),
            "{\"step\":0}\n{\"step\":1}\n{\"step\":2,\"again\":true}\n");
  EXPECT_EQ(read_text(folder.path() / "epochs.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
  const Json said = Json::parse(read_text(folder.path() / "run.json"));
  EXPECT_EQ(said["started"], "then");
  ASSERT_EQ(said["resumed"].size(), 1u);
  EXPECT_EQ(said["resumed"][0]["step"], 2);
  EXPECT_EQ(said["resumed"][0]["time"], "now");
  EXPECT_EQ(read_text(folder.path() / "checkpoints" / "step"), "2");
  EXPECT_FALSE(fs::exists(folder.path() / "result.json"));
}

TEST(RunFolder, CountsTheSettlingsBeforeTheCheckpointThatItResumesFrom) {
  const ScratchFolder folder;
  leave_a_run(folder.path());
  write_text(folder.path() / "steps.jsonl",
             "{\"step\":0,\"sent_bytes\":1}\n{\"step\":1,\"sent_bytes\":2}\n");
  write_text(folder.path() / "settlings.jsonl",
             "{\"step\":1,\"sent_bytes\":10}\n{\"step\":2,\"sent_bytes\":20}\n"
             "{\"step\":3,\"sent_bytes\":40}\n");
  RunFolder run(folder.path(), FolderUse::resume);
  const StepTotals earlier = run.begin(kRun, 2);
  EXPECT_EQ(earlier.sent_bytes, 33);
  EXPECT_EQ(earlier.steps, 2U);
  run.add_settling({{"step", 4}});
  EXPECT_EQ(read_text(folder.path() / "settlings.jsonl"),
            "{\"step\":1,\"sent_bytes\":10}\n{\"step\":2,\"sent_bytes\":20}\n"
            "{\"step\":4}\n");
}

TEST(JsonLines, AreJsonWhateverTheNumber) {
  const ScratchFolder folder;
  JsonLines lines(folder.path() / "lines");
  lines.add({{"loss", std::numeric_limits<double>::quiet_NaN()}});
  lines.add({{"loss", std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(read_text(folder.path() / "lines"), "{\"loss\":null}\n{\"loss\":null}\n");
}

TEST(JsonLines, SayWhenTheDiskIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  JsonLines lines("/dev/full");
  EXPECT_THROW(lines.add({{"step", 0}}), StorageError);
}

}  // namespace
}  // namespace topknot::cli

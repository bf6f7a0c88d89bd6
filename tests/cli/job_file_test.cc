// SPDX-License-Identifier: Apache-2.0
#include "cli/job_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <sstream>

#include "cli/folders.h"
#include "refusal.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

using test::read_text;
using test::ScratchFolder;
using test::write_text;

train::Job read_text_as_job(const std::string& text) {
  const ScratchFolder folder;
  write_text(folder.path() / "mine.toml", text);
  train::Job job;
  read_job(folder.path() / "mine.toml", job);
  return job;
}

std::string refusal_of(const std::string& text) {
  try {
    read_text_as_job(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

#define EXPECT_IN(part, whole) EXPECT_NE((whole).find(part), std::string::npos) << (whole)

TEST(JobFile, SetsNumbersTruthsTextsAndLists) {
  const train::Job job = read_text_as_job(
      "model = 'vgg16'\nepochs = 7\nlr = 0.05\nweight_decay = 1e-4\nflip = true\n"
      "rules = ['classifier.*=dense', 'embed*=0.05']\nbucket_mb = 0\n");
  EXPECT_EQ(job.model, "vgg16");
  EXPECT_EQ(job.epochs, 7);
  EXPECT_EQ(job.lr, 0.05);
  EXPECT_EQ(job.weight_decay, 1e-4);
  EXPECT_TRUE(job.flip);
  EXPECT_EQ(job.rules, (std::vector<std::string>{"classifier.*=dense", "embed*=0.05"}));
  EXPECT_EQ(job.bucket_mb, 0);
}

TEST(JobFile, IsCalledAsTheFileUnlessItSaysOtherwise) {
  EXPECT_EQ(read_text_as_job("epochs = 1").name, "mine");
  EXPECT_EQ(read_text_as_job("name = 'other'").name, "other");
}

TEST(JobFile, RefusesAnUnknownKeyWithFileLineAndTheNearest) {
  const std::string said = refusal_of("epochs = 1\n\nbacth = 3\n");
  EXPECT_IN("mine.toml:3: ", said);
  EXPECT_IN("nearest is batch", said);
}

TEST(JobFile, RefusesAValueOutOfRangeWithTheLine) {
  const std::string said = refusal_of("# no\ndensity = 1.5\n");
  EXPECT_IN("mine.toml:2: ", said);
  EXPECT_IN("density cannot be 1.5", said);
}

TEST(JobFile, RefusesWhatAJobHasNone) {
  EXPECT_IN("is a table", refusal_of("[optimizer]\nlr = 1\n"));
  EXPECT_IN("is a date", refusal_of("seed = 2026-01-01\n"));
  EXPECT_IN("not a word", refusal_of("rules = [1, 2]\n"));
  EXPECT_IN("not a word", refusal_of("rules = ['two words']\n"));
}

TEST(JobFile, RefusesWhatIsNotTomlInOneLine) {
  const std::string said = refusal_of("epochs = 1\nlr = = 2\n");
  EXPECT_IN("mine.toml:2: This is not TOML", said);
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
}

TEST(JobFile, IsFoundByNameOrByPath) {
  const ScratchFolder folder;
  write_text(folder.path() / "one.toml", "");
  EXPECT_EQ(find_job("one", folder.path()), folder.path() / "one.toml");
  const std::string path = (folder.path() / "one.toml").string();
  EXPECT_EQ(find_job(path, "/nowhere"), path);
}

TEST(JobFile, ThatIsNotThereIsRefusedWithTheNearestName) {
  const ScratchFolder folder;
  write_text(folder.path() / "quickstart.toml", "");
  try {
    find_job("quikstart", folder.path());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_IN("nearest is quickstart", std::string(error.what()));
  }
  EXPECT_REFUSAL(find_job("./quickstart.toml", folder.path()), ConfigError,
                 "There is no file ./quickstart.toml; JOB is a TOML file or a name of "
                 "`topknot train --list`.");
  EXPECT_REFUSAL(find_job("quickstart", folder.path() / "none"), ConfigError,
                 "There is no job quickstart: the folder " +
                     (folder.path() / "none").string() + " has none at all.");
}

TEST(JobFile, IsListedWithTheFirstLineOfItsComment) {
  const ScratchFolder folder;
  write_text(folder.path() / "b.toml", "# SPDX-License-Identifier: X\n# The second\n");
  write_text(folder.path() / "a.toml", "epochs = 1\n# late\n");
  write_text(folder.path() / "notes.txt", "# no job\n");
  const auto jobs = list_jobs(folder.path());
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "a");
  EXPECT_EQ(jobs[0].summary, "");
  EXPECT_EQ(jobs[1].name, "b");
  EXPECT_EQ(jobs[1].summary, "The second");
}

TEST(Environment, SetsKeysAndLeavesOtherVariablesAlone) {
  setenv("TOPKNOT_LR", "0.25", 1);
  setenv("TOPKNOT_DATA", "/data", 1);
  setenv("TOPKNOT_SETUP", "OFF", 1);
  train::Job job;
  read_environment(job);
  EXPECT_EQ(job.lr, 0.25);
  EXPECT_EQ(job.data, train::Job().data);
  setenv("TOPKNOT_LR", "fast", 1);
  try {
    read_environment(job);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_IN("TOPKNOT_LR: The key lr cannot be fast", std::string(error.what()));
  }
  for (const char* name : {"TOPKNOT_LR", "TOPKNOT_DATA", "TOPKNOT_SETUP"}) unsetenv(name);
}

TEST(Setting, IsAKeyAndAValueThatMayHaveEqualsSigns) {
  train::Job job;
  apply_setting(job, "optimizer=sgd:momentum=0.5");
  EXPECT_EQ(job.optimizer, "sgd:momentum=0.5");
  EXPECT_REFUSAL(
      apply_setting(job, "quickstart"), ConfigError,
      "--set takes key=value, and quickstart is none; JOB comes before --set.");
  EXPECT_REFUSAL(apply_setting(job, "=3"), ConfigError,
                 "--set takes key=value, and =3 is none; JOB comes before --set.");
}

TEST(JobsOfTheTree, CanAllBeReadAndDescribeThemselves) {
  const auto jobs = list_jobs(jobs_folder());
  EXPECT_GE(jobs.size(), 7u);
  for (const NamedJob& named : jobs) {
    EXPECT_FALSE(named.summary.empty()) << named.name;
    train::Job job;
    read_job(find_job(named.name, jobs_folder()), job);
    EXPECT_EQ(job.name, named.name);
    EXPECT_EQ(job.bucket_mb, 0)
        << named.name << " is to have one bucket, as in the papers";
  }
}

/// The words behind `key` in the comments of a job's file; empty where it has none.
std::string comment_of(const std::string& name, const std::string& key) {
  const std::string text = read_text(find_job(name, jobs_folder()));
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const std::size_t start = at + key.size();
  return text.substr(start, text.find('\n', start) - start);
}

TEST(JobsOfTheTree, RunTheSchemeThatTheirTitleNames) {
  const std::map<std::string, std::string> schemes = {{"Ok-Topk", "oktopk"},
                                                      {"ADTopk", "adtopk"},
                                                      {"ExDyna", "exdyna"},
                                                      {"gTopk", "gtopk"},
                                                      {"DGC", "dgc"}};
  std::size_t published = 0;
  for (const NamedJob& named : list_jobs(jobs_folder())) {
    train::Job job;
    read_job(find_job(named.name, jobs_folder()), job);
    train::check(job);
    const std::string mark = "as in ";
    const std::size_t at = named.summary.find(mark);
    if (at == std::string::npos) continue;
    ++published;
    const auto known = schemes.find(named.summary.substr(at + mark.size()));
    ASSERT_NE(known, schemes.end()) << named.name << ": " << named.summary;
    EXPECT_EQ(job.scheme, known->second) << named.name;
    EXPECT_GT(job.density, 0) << named.name;
  }
  EXPECT_GE(published, 9U);
}

TEST(JobsOfTheTree, OfPapersSayHowToRunThemWithOurOwnScheme) {
  for (const NamedJob& named : list_jobs(jobs_folder())) {
    if (named.summary.find("as in ") == std::string::npos) continue;
    train::Job job;
    read_job(find_job(named.name, jobs_folder()), job);
    std::istringstream words(comment_of(named.name, "# With our own scheme: "));
    for (std::string word; words >> word;)
      if (word == "--scheme") {
        words >> job.scheme;
      } else if (word != "--set") {
        apply_setting(job, word);
      }
    EXPECT_EQ(job.scheme, "knot") << named.name;
    EXPECT_EQ(job.density, 0) << named.name;
    train::check(job);
  }
}

TEST(JobsOfTheTree, OfSmallMachinesRunOurOwnScheme) {
  for (const NamedJob& named : list_jobs(jobs_folder())) {
    if (!named.name.ends_with("-small") && named.name != "quickstart") continue;
    train::Job job;
    read_job(find_job(named.name, jobs_folder()), job);
    EXPECT_EQ(job.scheme, "knot") << named.name;
  }
}

}  // namespace
}  // namespace topknot::cli

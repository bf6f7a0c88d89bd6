// SPDX-License-Identifier: Apache-2.0
//
// Every job of jobs/ takes a few steps on tiny files in its data set's own format.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/job_file.h"
#include "data/write_sets.h"
#include "ranks.h"
#include "topknot/params.h"
#include "train/train.h"

namespace topknot::train {
namespace {

Job tiny(const std::string& name, const data::TemporaryFolder& folder) {
  Job job;
  cli::read_job(cli::find_job(name, cli::jobs_folder()), job);
  const std::string set = Spec::parse(job.data).name;
  data::write_set(set, folder.path());
  if (set == "wikipedia-en") data::write_set("bert-vocab", folder.path());
  if (set == "imagenet") job.data = "imagenet:side=64";
  job.folder = folder.path().string();
  job.steps = 5;
  job.batch = 2;
  return job;
}

class EveryJob : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryJob, TakesFiveStepsOnFilesInItsOwnFormat) {
  const data::TemporaryFolder folder;
  const Job job = tiny(GetParam(), folder);
  for (const int ranks : {1, 2})
    testing::run(ranks, [&](Transport& link) {
      Observer silent;
      const Outcome outcome = train(link, job, {}, silent);
      EXPECT_EQ(outcome.steps, 5U);
      EXPECT_TRUE(std::isfinite(outcome.metric.value));
      EXPECT_EQ(outcome.sent_bytes_per_step > 0, ranks > 1);
    });
}

std::vector<std::string> names_of_jobs() {
  std::vector<std::string> names;
  for (const cli::NamedJob& job : cli::list_jobs(cli::jobs_folder()))
    names.push_back(job.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Jobs, EveryJob, ::testing::ValuesIn(names_of_jobs()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& letter : name)
                             if (letter == '-') letter = '_';
                           return name;
                         });

}  // namespace
}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
#include "job/engine_options.h"

#include <gtest/gtest.h>

#include "topknot/catalog.h"

namespace topknot::train {
namespace {

Job job_of(const std::string& scheme, const std::string& model = "cnn") {
  Job job;
  job.scheme = scheme;
  job.model = model;
  return job;
}

TEST(EngineOptionsOfAJob, TellAdTopKTheModelsIntervalAndTheLengthOfTheRun) {
  const std::pair<const char*, const char*> kIntervals[] = {
      {"resnet20", "5"}, {"vgg16", "10"},    {"lstm:layers=1", "20"},
      {"bert", "20"},    {"acoustic", "20"}, {"ncf", "5"}};
  for (const auto& [model, tau] : kIntervals) {
    Job job = job_of("adtopk-threshold", model);
    job.epochs = 3;
    job.local_steps = 1;
    const std::string expected = std::string("adtopk_threshold:steps=30,tau=") + tau;
    EXPECT_EQ(engine_options(job, 0, Pace::of(job, 10)).compressor, expected);
  }
}

TEST(EngineOptionsOfAJob, LeaveWhatTheJobSaysItself) {
  Job job = job_of("adtopk-threshold", "vgg16");
  job.local_steps = 1;
  job.compressor = "adtopk_threshold:tau=7,steps=0";
  EXPECT_EQ(engine_options(job, 0, Pace::of(job, 10)).compressor,
            "adtopk_threshold:steps=0,tau=7");
  EXPECT_EQ(engine_options(job_of("knot"), 0).compressor, "");
  job = job_of("knot");
  job.compressor = "gaussiank";
  EXPECT_EQ(engine_options(job, 0).compressor, "gaussiank");
}

TEST(Pace, CountsExchanges) {
  Job job;
  job.epochs = 3;
  job.local_steps = 1;
  EXPECT_EQ(Pace::of(job, 10).per_epoch, 10U);
  EXPECT_EQ(Pace::of(job, 10).in_all, 30U);
  job.local_steps = 4;  // an epoch's end closes a round
  EXPECT_EQ(Pace::of(job, 10).per_epoch, 3U);
  EXPECT_EQ(Pace::of(job, 10).in_all, 9U);
  job.steps = 5;
  EXPECT_EQ(Pace::of(job, 10).in_all, 2U);
  EXPECT_EQ(engine_options(job, 0, Pace::of(job, 10)).steps_per_epoch, 3U);
}

TEST(Schedules, OfASchemeAreTakenWhereTheJobHasNone) {
  std::vector<std::string> notices;
  Job job = job_of("oktopk");
  take_schedule(job, notices);
  EXPECT_EQ(job.schedule, find_scheme("oktopk").schedule);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_NE(notices[0].find("oktopk warms up by dense:steps=512"), std::string::npos);
  job.schedule = "constant";
  take_schedule(job, notices);
  EXPECT_EQ(job.schedule, "constant");
  Job plain = job_of("knot");
  take_schedule(plain, notices);
  EXPECT_EQ(plain.schedule, "constant");
  EXPECT_EQ(notices.size(), 1U) << "there is nothing to say of a constant one";
}

Job as_run(const Job& job) {
  std::vector<std::string> notices;
  return prepared(job, notices);
}

TEST(Budget, OfKnotIsAQuarterInTwoBitsEveryFourthStep) {
  const Job job = as_run(job_of("knot"));
  EXPECT_EQ(job.exchange, "updates");
  EXPECT_EQ(job.local_steps, 4);
  EXPECT_EQ(job.density, 0.25);
  EXPECT_EQ(job.collective, "knot:values=i2");
  EXPECT_EQ(job.memory, "residual");
  EXPECT_EQ(job.outer, "sgd");
  EXPECT_EQ(job.outer_lr, 1);
}

TEST(Budget, LeavesPublishedSchemesAsTheyAre) {
  for (const char* scheme : {"oktopk", "gtopk", "topka", "dgc", "exdyna"})
    for (const char* exchange : {"auto", "updates"}) {
      Job job = job_of(scheme);
      job.exchange = scheme == std::string("dgc") ? "auto" : exchange;
      job = as_run(job);
      EXPECT_EQ(job.local_steps, 1) << scheme;
      EXPECT_EQ(job.density, 0.01) << scheme;
      EXPECT_EQ(job.collective, "") << scheme;
    }
}

TEST(Budget, IsKeptByAnySchemeThatExchangesUpdates) {
  Job job = job_of("oktopk");
  job.exchange = "updates";
  job.budget = 0.001;
  job = as_run(job);
  EXPECT_EQ(job.local_steps, 63);
  EXPECT_EQ(job.density, 0.25);
  EXPECT_EQ(job.collective, "oktopk:values=i2");
}

TEST(Budget, LeavesValuesThatTheJobSets) {
  Job job = job_of("knot");
  job.collective = "knot:values=bf16";
  EXPECT_EQ(as_run(job).collective, "knot:values=bf16");
  job.collective = "dense";
  EXPECT_EQ(as_run(job).collective, "dense");
}

TEST(Budget, GivesWayToADensityAndToAMemoryThatSteps) {
  Job job = job_of("knot");
  job.density = 0.02;
  EXPECT_EQ(as_run(job).local_steps, 1);
  EXPECT_EQ(as_run(job).density, 0.02);
  EXPECT_EQ(as_run(job).collective, "");
  job = job_of("knot");
  job.memory = "momentum:momentum=0.9,masking=0";
  EXPECT_EQ(as_run(job).local_steps, 1);
  EXPECT_EQ(as_run(job).density, 0.01);
}

TEST(LocalStepsOfAJob, HaveAnOuterOptimizerWhenTheyExchangeGradients) {
  Job job = job_of("dense");
  job.local_steps = 30;
  EXPECT_EQ(as_run(job).exchange, "gradients");
  EXPECT_EQ(as_run(job).outer, "sgd:momentum=0.9,nesterov=1");
  EXPECT_EQ(as_run(job).outer_lr, 0.7);
  job = job_of("knot");
  job.local_steps = 30;
  EXPECT_EQ(as_run(job).exchange, "updates");
  job.outer = "sgd:momentum=0.9";
  EXPECT_EQ(as_run(job).exchange, "gradients");
}

TEST(Exchange, IsOfUpdatesByKnotUnlessTheJobSaysOtherwise) {
  const auto placed = [](const Job& job) {
    const Job made = as_run(job);
    return made.exchange + " " + made.memory;
  };
  Job job = job_of("knot");
  job.density = 0.01;
  job.optimizer = "sgd:momentum=0.9";
  EXPECT_EQ(placed(job), "updates momentum:momentum=0.9");
  job.optimizer = "sgd";
  EXPECT_EQ(placed(job), "updates momentum:momentum=0");
  job.optimizer = "adamw:beta2=0.95";
  EXPECT_EQ(placed(job), "updates adam:beta2=0.95");
  job.local_steps = 4;
  EXPECT_EQ(placed(job), "updates residual");
  job.local_steps = 1;
  job.memory = "residual";
  EXPECT_EQ(placed(job), "gradients residual");
  job.memory = "adam:gain=none";
  EXPECT_EQ(placed(job), "updates adam:gain=none");
  job.memory = "";
  job.exchange = "gradients";
  EXPECT_EQ(placed(job), "gradients ");
  for (const Scheme& scheme : schemes()) {
    const std::string expected = scheme.name == "knot" ? "updates" : "gradients";
    EXPECT_EQ(placed(job_of(std::string(scheme.name))).substr(0, expected.size()),
              expected)
        << scheme.name << " is as its paper has it";
  }
}

TEST(Momentum, OfTheDecayStaysWithTheOptimizer) {
  std::vector<std::string> notices;
  Job job = job_of("dgc");
  job.local_steps = 1;
  job.optimizer = "sgd:momentum=0.9,nesterov=1";
  job.weight_decay = 1e-4;
  place_optimizer(job, notices);
  EXPECT_EQ(job.memory, "dgc:momentum=0.9,nesterov=1");
  EXPECT_EQ(job.optimizer, "sgd:momentum=0.9,nesterov=1,momentum_of=decay");
  place_optimizer(job, notices);  // which has nothing left to do
  EXPECT_EQ(job.optimizer, "sgd:momentum=0.9,nesterov=1,momentum_of=decay");
  EXPECT_EQ(notices.size(), 1U);
  Job plain = job_of("dgc");
  plain.local_steps = 1;
  place_optimizer(plain, notices);
  EXPECT_EQ(plain.optimizer, "sgd");
}

TEST(Clipping, IsBeforeTheExchangeWhereTheMemoryDoesIt) {
  Job job = job_of("dgc");
  job.local_steps = 1;
  EXPECT_FALSE(clips_before(job));
  job.clip = 2;
  EXPECT_TRUE(clips_before(job));
  EXPECT_EQ(engine_options(job, 0).clip, 2);
  job.memory = "dgc:clip=0.5";  // its own
  EXPECT_FALSE(clips_before(job));
  EXPECT_EQ(engine_options(job, 0).clip, 0);
  job.memory = "residual";
  EXPECT_FALSE(clips_before(job));
  job.memory.clear();
  job.local_steps = 2;
  EXPECT_FALSE(clips_before(job));
}

}  // namespace
}  // namespace topknot::train

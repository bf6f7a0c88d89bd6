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
    const std::string expected = std::string("adtopk_threshold:steps=30,tau=") + tau;
    EXPECT_EQ(engine_options(job, 0, Pace::of(job, 10)).compressor, expected);
  }
}

TEST(EngineOptionsOfAJob, LeaveWhatTheJobSaysItself) {
  Job job = job_of("adtopk-threshold", "vgg16");
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

TEST(Exchange, IsOfUpdatesByKnotUnlessTheJobSaysOtherwise) {
  const auto placed = [](Job job) {
    std::vector<std::string> notices;
    place_optimizer(job, notices);
    return job.exchange + " " + job.memory;
  };
  Job job = job_of("knot");
  job.optimizer = "sgd:momentum=0.9";
  EXPECT_EQ(placed(job), "updates momentum:momentum=0.9");
  job.optimizer = "sgd";
  EXPECT_EQ(placed(job), "updates momentum:momentum=0");
  job.optimizer = "adamw:beta2=0.95";
  EXPECT_EQ(placed(job), "updates adam:beta2=0.95");
  job.local_steps = 4;
  EXPECT_EQ(placed(job), "gradients ");
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
  job.optimizer = "sgd:momentum=0.9,nesterov=1";
  job.weight_decay = 1e-4;
  place_optimizer(job, notices);
  EXPECT_EQ(job.memory, "dgc:momentum=0.9,nesterov=1");
  EXPECT_EQ(job.optimizer, "sgd:momentum=0.9,nesterov=1,momentum_of=decay");
  place_optimizer(job, notices);  // which has nothing left to do
  EXPECT_EQ(job.optimizer, "sgd:momentum=0.9,nesterov=1,momentum_of=decay");
  EXPECT_EQ(notices.size(), 1U);
  Job plain = job_of("dgc");
  place_optimizer(plain, notices);
  EXPECT_EQ(plain.optimizer, "sgd");
}

TEST(Clipping, IsBeforeTheExchangeWhereTheMemoryDoesIt) {
  Job job = job_of("dgc");
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

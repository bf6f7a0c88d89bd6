// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "job/comparison.h"
#include "job/engine_options.h"
#include "job/pass_memory.h"
#include "train/auto_decision.h"
#include "train/checkpoint_policy.h"
#include "train/drift_check.h"
#include "train/evaluation.h"
#include "train/nonfinite.h"
#include "train/progress.h"
#include "train/recorder.h"
#include "train/run_totals.h"
#include "train/stopwatch.h"
#include "train/synchronizer.h"
#include "transports/control_channel.h"

namespace topknot::train {

/// One rank's run of a job. loop.cc says how it goes.
class Loop {
 public:
  /// The job is checked. `comparison` has found it to be the same on all ranks. All arguments
  /// but the job must outlive the object.
  Loop(Transport& link, const Job& job, const TrainOptions& options, Observer& observer,
       Comparison& comparison);

  /// All ranks call it, once.
  Outcome run();
  /// What the observer hears before the first step.
  Start plan();

 private:
  std::unique_ptr<Task> load(const Job& job);
  Live live();
  void start();
  void step();
  void pass(StepRecord& record);
  void end_round();
  void between_rounds();
  void end_epoch();
  void evaluate();
  Outcome finish();
  void damage();

  Transport& link_;
  Comparison& comparison_;
  const TrainOptions& options_;
  Observer& observer_;
  const RankInfo rank_info_;
  std::vector<std::string> notices_;
  const std::unique_ptr<Task> task_;
  AutoDecision decision_;
  const Job job_;
  Progress progress_;
  Replica replica_;
  const std::unique_ptr<Synchronizer> synchronizer_;
  Rates rates_;
  const Settling settling_;
  PassMemory passes_;  // at the start of the round
  ControlChannel control_;
  Recorder recorder_;
  CheckpointPolicy checkpoints_;
  DriftCheck drift_;
  NonfinitePolicy nonfinite_;
  RunTotals totals_;

  std::uint64_t first_step_ = 0;
  Position round_start_;
  std::vector<StepRecord> round_;  // the steps since the last exchange
  Evaluation evaluation_;          // the last
  Stopwatch epoch_watch_;
  bool evaluated_ = false;  // since the last step
  bool stopping_ = false;
  bool save_is_written_ = false;  // on all ranks
  Outcome outcome_;
};

}  // namespace topknot::train

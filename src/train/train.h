// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training of a job. This header includes no torch, so the command need not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "job/comparison.h"
#include "job/job.h"
#include "sim/choose.h"
#include "topknot/engine.h"
#include "topknot/transport.h"

namespace topknot::train {

struct Metric {
  std::string name;  ///< "accuracy", "perplexity", ...
  double value = 0;
};

/// What is known before the first step; equal on all ranks.
struct Start {
  Job job;  ///< as it is run: what the given one leaves open is decided
  std::uint64_t parameters = 0;
  std::uint64_t train_samples = 0;
  std::uint64_t test_samples = 0;
  std::string data_fingerprint;  ///< 16 hexadecimal digits, other for other data
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t steps = 0;  ///< taken when the run ends, those before a resume included
  std::uint64_t first_step = 0;   ///< not 0 after a resume
  std::uint64_t dense_bytes = 0;  ///< that a rank sends in a dense step: 8n(P-1)/P
  std::vector<Layout> buckets;
  std::uint64_t gradient_bytes = 0;
  std::uint64_t engine_bytes =
      0;  ///< residuals and optimizer state, without the gradients
  std::vector<std::string> notices;  ///< what was decided for the job, or in the resume
  /// What scheme=auto has measured, for each bucket; empty where it has not.
  std::vector<sim::ChosenBucket> measured;
};

/// One step. The times and the engine's report are this rank's own; all else is of all ranks, and
/// equal on them. With local steps the last step of a round includes the exchange, and the others
/// have sent nothing.
struct StepRecord {
  std::uint64_t step = 0;   ///< counted from 0
  std::uint64_t epoch = 0;  ///< counted from 0
  double loss = 0;          ///< mean over all ranks
  double lr = 0;
  bool finite = true;            ///< on all ranks; else the step was not applied
  std::uint64_t samples = 0;     ///< of all ranks
  std::uint64_t sent_bytes = 0;  ///< by the rank that sent most
  double seconds = 0;            ///< the whole step, data and optimizer included
  double compute_seconds = 0;    ///< data, forward and backward
  double data_seconds = 0;       ///< making the batches
  double forward_seconds = 0;
  double backward_seconds = 0;
  double optimizer_seconds = 0;  ///< moving the weights
  double agree_seconds = 0;  ///< telling each other losses and bytes after the exchange
  double residual_norm =
      0;  ///< of this rank's residuals after the step, where it is wanted
  StepReport report;
};

/// The end of an epoch; the same on all ranks.
struct EpochRecord {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  ///< steps taken so far
  double train_loss = 0;   ///< mean over the steps that were applied; NaN where none was
  bool evaluated = false;
  double test_loss = 0;
  Metric metric;
  std::vector<Metric> others;  ///< such as NDCG@10 beside HR@10
  double seconds = 0;
  double evaluation_start = 0;  ///< by the link's clock; this rank's own, as the next
  double evaluation_seconds = 0;
  double lr = 0;
};

/// A part of a run that may take long and is no step: loading, building, evaluating.
struct Activity {
  std::string what;         ///< "loading cifar10"
  std::uint64_t done = 0;   ///< of all ranks together, about
  std::uint64_t total = 0;  ///< 0: not known
};

/// Is told of one rank's training while it runs, by that rank's thread.
class Observer {
 public:
  virtual ~Observer() = default;
  /// An activity begins, or is further than it was.
  virtual void on_activity(const Activity&) {}
  virtual void on_start(const Start&) {}
  /// After every exchange, for each step since the one before.
  virtual void on_step(const StepRecord&) {}
  /// One dense exchange has settled all residuals, after so many steps of the run. `sent_bytes` are
  /// this rank's, and in no StepRecord.
  virtual void on_settling(std::uint64_t /*steps*/, std::uint64_t /*sent_bytes*/) {}
  virtual void on_epoch(const EpochRecord&) {}
  /// The checkpoint of this step is on the disk; writing it took so long, beside later steps.
  virtual void on_checkpoint(std::uint64_t /*step*/, double /*seconds*/) {}
  /// A checkpoint could not be written. Training continues; three failures in a row end it.
  virtual void on_checkpoint_failed(const std::string& /*sentence*/) {}
  /// Whether this rank has been asked to save and leave; called after every exchange.
  virtual bool asked_to_stop() { return false; }
};

/// Gradients to write to a file, for the benchmarks: each rank's own of a step, before the
/// exchange and without the residual.
struct RecordOptions {
  std::filesystem::path file;        ///< empty: none
  std::vector<std::uint64_t> steps;  ///< empty: the run's first, middle and last
  std::vector<int> ranks;            ///< empty: all
};

struct TrainOptions {
  /// Where checkpoints go; empty: none are written.
  std::filesystem::path checkpoints = {};
  /// Resume from the newest checkpoint; NoCheckpointError when there is none.
  bool resume = false;
  /// EngineOptions::details
  bool details = false;
  /// Every so many steps the length of the residual is measured, a sweep over it; 0: never.
  std::uint64_t residual_every = 0;
  RecordOptions record = {};
  /// For tests alone: called with each parameter's name and weights before the first step and
  /// after every exchange, and may change them.
  std::function<void(std::uint64_t step, const std::string& name,
                     std::span<float> weights)>
      testing_only_damage = {};
};

/// The result of a run; equal on all ranks but for the times.
struct Outcome {
  std::uint64_t steps = 0;       ///< those before a resume included
  std::uint64_t first_step = 0;  ///< of this run
  std::uint64_t epochs = 0;      ///< completed
  double seconds = 0;            ///< of training, evaluation included
  Metric metric;                 ///< of the last evaluation
  /// All that the rank which sent most has sent in this run, over the steps that were applied: one
  /// that was skipped is no saving.
  double sent_bytes_per_step = 0;
  std::uint64_t settle_bytes =
      0;  ///< of all exchanges that settled residuals, included above
  double dense_bytes_per_step = 0;
  double exposed_seconds_per_step = 0;  ///< mean, of this rank
  double overlap = 0;                   ///< share of communication that was hidden
  Traffic traffic;                      ///< of this rank in this run
  std::string weights_hash;             ///< 16 hexadecimal digits
  bool stopped_early = false;           ///< was asked to stop, and saved a checkpoint
  std::uint64_t checkpoint_bytes = 0;   ///< that this rank has copied for a checkpoint
  std::uint64_t recorded_steps = 0;     ///< whose gradients are in the file
  std::uint64_t skipped_steps = 0;      ///< of this run, because they were not finite
  /// Why the run failed: a step was not finite (nonfinite=abort), too many were (skip_limit), or
  /// the last loss is not. Empty: it did not.
  std::string not_finite;
};

/// The version of torch that trains, as in "2.13.0".
std::string torch_version();

/// Trains. All ranks call it with equal jobs and options; where these differ, all throw
/// StartedUnlikeError before the first step. Throws ConfigError, DataError, LinkError,
/// DisagreementError, DriftError, NoCheckpointError, StorageError.
Outcome train(Transport& link, const Job& job, const TrainOptions& options,
              Observer& observer);

/// What train() would tell its observer before the first step of a run that is not resumed. Makes
/// this rank's model and engine, and sends nothing: the other ends of `link` need nobody. Throws
/// as train() does.
Start plan(Transport& link, const Job& job, Observer& observer);

}  // namespace topknot::train

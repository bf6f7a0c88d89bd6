// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training of a job. This header knows no torch, so that the command need not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "job/comparison.h"
#include "job/job.h"
#include "topknot/engine.h"
#include "topknot/transport.h"

namespace topknot::train {

struct Metric {
  std::string name;  ///< "accuracy", "perplexity", ...
  double value = 0;
};

/// What is known before the first step; equal on all ranks.
struct Start {
  std::uint64_t parameters = 0;
  std::uint64_t train_samples = 0;
  std::uint64_t test_samples = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t steps = 0;        ///< that the run will have taken when it ends
  std::uint64_t first_step = 0;   ///< not 0 after a resume
  std::uint64_t dense_bytes = 0;  ///< a rank would send in a dense step: 8n(P-1)/P
  std::vector<Layout> buckets;
  std::uint64_t gradient_bytes = 0;
  std::uint64_t engine_bytes = 0;    ///< residuals and velocities, beyond the gradients
  std::vector<std::string> notices;  ///< of the resume: what was passed over, folded
};

/// One step. The engine's report is this rank's own; what is marked so is of all ranks and
/// the same on all of them. With local steps the exchange is part of the last step of its
/// round, and the others have sent nothing.
struct StepRecord {
  std::uint64_t step = 0;   ///< counted from 0
  std::uint64_t epoch = 0;  ///< counted from 0
  double loss = 0;          ///< mean over all ranks
  double lr = 0;
  bool finite = true;            ///< of all ranks; a step that is not was not applied
  std::uint64_t samples = 0;     ///< of all ranks
  std::uint64_t sent_bytes = 0;  ///< of the busiest rank
  double seconds = 0;            ///< the whole step, data and optimizer included
  double compute_seconds = 0;    ///< forward and backward
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
  double lr = 0;
};

/// Hears of a rank's training as it goes. One for each rank; called by that rank's thread.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const Start&) {}
  /// After every exchange, for each step since the last.
  virtual void on_step(const StepRecord&) {}
  virtual void on_epoch(const EpochRecord&) {}
  virtual void on_checkpoint(std::uint64_t /*step*/, double /*seconds*/) {}
  /// A checkpoint that could not be written; training goes on, three in a row end it.
  virtual void on_checkpoint_failed(const std::string& /*sentence*/) {}
  /// Whether somebody wants this rank to save and leave; asked after every exchange.
  virtual bool asked_to_leave() { return false; }
};

/// Which gradients are written to a file, for the benchmarks: each rank's own of a step,
/// before the exchange and without what it owes.
struct RecordOptions {
  std::filesystem::path file;        ///< empty: none
  std::vector<std::uint64_t> steps;  ///< empty: the run's first, middle and last
  std::vector<int> ranks;            ///< empty: all
};

struct TrainOptions {
  /// Where checkpoints go; empty: none are written.
  std::filesystem::path checkpoints = {};
  /// Go on from the newest checkpoint; NoCheckpointError when there is none.
  bool resume = false;
  RecordOptions record = {};
  /// For tests alone: shown each parameter's name and weights before the first step and after
  /// every exchange, and may damage them.
  std::function<void(std::uint64_t step, const std::string& name,
                     std::span<float> weights)>
      testing_only_damage = {};
};

/// What a run came to; the same on all ranks but for the times.
struct Outcome {
  std::uint64_t steps = 0;         ///< in all, those before a resume among them
  std::uint64_t epochs = 0;        ///< completed
  double seconds = 0;              ///< of training, evaluation included
  Metric metric;                   ///< of the last evaluation
  double sent_bytes_per_step = 0;  ///< mean over this run's steps of the busiest rank
  std::uint64_t settle_bytes = 0;  ///< of them, that settled residuals, in all
  double dense_bytes_per_step = 0;
  double exposed_seconds_per_step = 0;  ///< mean, of this rank
  double overlap = 0;                   ///< share of communication that was hidden
  std::string weights_hash;             ///< 16 hexadecimal digits
  bool left_early = false;              ///< asked to leave, and saved
  std::uint64_t recorded_steps = 0;     ///< whose gradients are in the file
  std::uint64_t skipped_steps = 0;      ///< of this run, that were not finite
  /// Why what came out is worth nothing: a step was not finite and none may be (the run ended
  /// there), too many were, or the last loss is not. Empty: all is well.
  std::string not_finite;
};

/// Trains. All ranks call together with equal jobs, which is looked after: StartedUnlikeError,
/// before the first step. Throws ConfigError, DataError, LinkError, DisagreementError,
/// DriftError, NoCheckpointError, StorageError.
Outcome train(Transport& link, const Job& job, const TrainOptions& options,
              Observer& observer);

}  // namespace topknot::train

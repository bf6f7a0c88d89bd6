// SPDX-License-Identifier: Apache-2.0
//
// The training loop of one rank. A step is
//
//   pass       forward and backward, `accumulate` times; buckets set out as they fill
//   finish     the synchronizer exchanges and moves the weights: the same bits on every rank
//   share      one small message round: losses, bytes, and whether a rank was asked to stop
//
// With local steps the exchange and the message come at the end of a round of steps. Everything
// that reads or changes the weights comes between rounds: settling, comparing the ranks,
// evaluation at the end of an epoch, copying a checkpoint, which a thread then writes. So the end
// of an epoch or of the run closes a round early.

#include "train/loop.h"

#include <algorithm>
#include <utility>

#include "topknot/error.h"
#include "train/channels.h"
#include "train/passes.h"
#include "train/replica_fields.h"
#include "train/round_message.h"
#include "train/start.h"

namespace topknot::train {
namespace {

EngineOptions with_details(EngineOptions options, bool details) {
  options.details = details;
  return options;
}

}  // namespace

Loop::Loop(Transport& link, const Job& job, const TrainOptions& options,
           Observer& observer, Comparison& comparison)
    : link_(link),
      comparison_(comparison),
      options_(options),
      observer_(observer),
      rank_info_{link.rank(), link.size()},
      task_(load(job)),
      decision_(link, options, observer),
      job_(prepared(decision_.decide(job, *task_, notices_), notices_)),
      progress_(job_, *task_),
      replica_(task_->model(), link,
               with_details(engine_options(job_, kEngineChannel,
                                           Pace::of(job_, progress_.steps_per_epoch())),
                            options.details)),
      synchronizer_(make_synchronizer(job_, *task_, replica_, link)),
      rates_(Spec::parse(job_.lr_schedule), job_.lr, job_.warmup, job_.warmup_from,
             static_cast<double>(job_.epochs)),
      settling_(job_.exchange == "updates" ? Settling::parse(job_.settle) : Settling{}),
      passes_(pass_state(*task_, replica_)),
      control_(link, kControlChannel),
      recorder_(link, kRecorderChannel, job_, options.record),
      checkpoints_(job_, options, link, kStoreChannel),
      drift_(job_, comparison),
      nonfinite_(job_) {}

Outcome Loop::run() {
  comparison_.require_equal(model_fields(replica_, *task_));
  checkpoints_.resume(live(), notices_);
  damage();
  comparison_.require_equal(state_fields(live()));
  start();
  const Stopwatch watch;
  while (!progress_.is_over() && !stopping_ && !nonfinite_.failed()) {
    step();
    if (round_.empty() && !nonfinite_.failed()) between_rounds();
  }
  checkpoints_.finish(observer_, /*must_succeed=*/stopping_);
  drift_.require_equal(live());
  outcome_.recorded_steps = recorder_.finish();
  if (job_.evaluate && !stopping_ && !evaluated_ && !nonfinite_.failed()) evaluate();
  outcome_.seconds = watch.seconds();
  return finish();
}

std::unique_ptr<Task> Loop::load(const Job& job) {
  observer_.on_activity({.what = "loading " + job.data});
  auto task = make_task(job, rank_info_);
  task->on_evaluated = [this](std::uint64_t done, std::uint64_t total) {
    observer_.on_activity({.what = "evaluating", .done = done, .total = total});
  };
  observer_.on_activity({.what = "building the exchange"});
  return task;
}

Live Loop::live() {
  return {*task_, replica_,           synchronizer_->optimizer(),
          rates_, progress_.position, synchronizer_->outer()};
}

void Loop::start() {
  first_step_ = progress_.position.step;
  const Start start = plan();
  if (first_step_ > start.steps)
    throw ConfigError("The checkpoint was made after step " +
                      std::to_string(first_step_) + " and the job ends after " +
                      std::to_string(start.steps) + ": give it more steps or epochs.");
  outcome_.dense_bytes_per_step = static_cast<double>(start.dense_bytes);
  checkpoints_.start_at(first_step_);
  drift_.start_at(first_step_);
  nonfinite_.plan(start.steps - std::min(start.steps, first_step_));
  recorder_.plan(first_step_, start.steps);
  observer_.on_start(start);
}

Start Loop::plan() {
  Start start =
      describe_start(job_, progress_, *task_, replica_, rank_info_.ranks, notices_);
  start.measured = decision_.buckets();
  return start;
}

void Loop::step() {
  const Stopwatch watch;
  const bool opens_round = round_.empty();
  if (opens_round) {
    passes_.keep();
    round_start_ = progress_.position;
  }
  StepRecord& record = round_.emplace_back();
  record.step = progress_.position.step;
  record.epoch = progress_.position.epoch;
  record.lr = rates_.at(progress_.epochs());
  record.samples = progress_.samples_per_step();
  synchronizer_->begin(record.lr, opens_round);
  pass(record);
  ++progress_.position.step;
  const bool closes_round = round_.size() >= static_cast<std::size_t>(job_.local_steps) ||
                            progress_.epoch_is_done() || progress_.is_over();
  synchronizer_->finish(round_, closes_round);
  if (!record.finite) passes_.restore();
  if (closes_round) {
    const Stopwatch agreement;
    const RoundAgreement agreed = share_round(
        control_, round_,
        {.stopping = observer_.asked_to_stop(), .is_written = checkpoints_.is_written()});
    stopping_ = agreed.stopping;
    save_is_written_ = agreed.is_written;
    record.agree_seconds = agreement.seconds();
  }
  record.seconds = watch.seconds();
  if (closes_round) end_round();
}

void Loop::pass(StepRecord& record) {
  const Stopwatch watch;
  const bool recorded = recorder_.wants(record.step);
  const bool overlap = synchronizer_->overlaps() && !recorded;
  const Passed passed = run_passes(job_, *task_, replica_, progress_.position, overlap);
  record.loss = passed.loss;
  record.data_seconds = passed.data_seconds;
  record.forward_seconds = passed.forward_seconds;
  record.backward_seconds = passed.backward_seconds;
  record.compute_seconds = watch.seconds();
  // No gradient has been handed over, so they are still this rank's own.
  if (recorded) recorder_.take(record.step, replica_);
  if (!overlap) synchronizer_->prepare_held();
}

void Loop::end_round() {
  damage();
  const std::uint64_t every = options_.residual_every;
  if (every > 0 && (round_.back().step + 1) % every < round_.size())
    round_.back().residual_norm = replica_.engine().residual_norm();
  nonfinite_.judge(round_, [&] {
    return describe(synchronizer_->locate_nonfinite(round_start_), replica_, control_);
  });
  totals_.add(round_);
  for (const StepRecord& record : round_) observer_.on_step(record);
  round_.clear();
  evaluated_ = false;
}

void Loop::between_rounds() {
  if (save_is_written_) checkpoints_.finish(observer_);
  const std::uint64_t step = progress_.position.step;
  const bool epoch_ends = progress_.epoch_is_done();
  const bool run_ends = progress_.is_over() || (epoch_ends && progress_.is_last_epoch());
  if (settling_.is_due(round_start_.step, step, run_ends)) {
    const std::uint64_t sent_bytes = synchronizer_->settle();
    totals_.add_settling(sent_bytes);
    observer_.on_settling(step, sent_bytes);
  }
  if (drift_.is_due(step)) drift_.require_equal(live());
  if (epoch_ends) end_epoch();
  if (checkpoints_.is_due(step, epoch_ends, stopping_ || progress_.is_over())) {
    drift_.require_equal(live());
    checkpoints_.save(live(), observer_);
  }
}

void Loop::end_epoch() {
  EpochRecord record;
  record.epoch = progress_.position.epoch;
  record.step = progress_.position.step;
  record.train_loss = totals_.end_epoch();
  record.lr = rates_.at(progress_.epochs());
  const auto every = static_cast<std::uint64_t>(job_.evaluate_every);
  record.evaluated = job_.evaluate && (progress_.is_last_epoch() ||
                                       (every > 0 && (record.epoch + 1) % every == 0));
  if (record.evaluated) {
    record.evaluation_start = link_.now();
    evaluate();
    record.evaluation_seconds = link_.now() - record.evaluation_start;
    record.test_loss = evaluation_.test_loss;
    record.metric = evaluation_.metric;
    record.others = evaluation_.others;
  }
  record.seconds = epoch_watch_.seconds();
  progress_.end_epoch();
  observer_.on_epoch(record);
  epoch_watch_ = {};
}

void Loop::evaluate() {
  observer_.on_activity({.what = "evaluating", .total = task_->test_samples()});
  evaluation_ = train::evaluate(*task_, replica_, control_);
  rates_.learn(evaluation_.score);
  evaluated_ = true;
}

Outcome Loop::finish() {
  if (!nonfinite_.failed() && !stopping_)
    nonfinite_.judge_losses(totals_.train_loss(), evaluation_.test_loss);
  outcome_.steps = progress_.position.step;
  outcome_.first_step = first_step_;
  outcome_.epochs = progress_.position.epoch;
  outcome_.metric = evaluation_.metric;
  totals_.write_to(outcome_, outcome_.steps - first_step_);
  outcome_.traffic = replica_.engine().traffic();
  outcome_.weights_hash = replica_.weights_hash();
  outcome_.checkpoint_bytes = checkpoints_.copied_bytes();
  outcome_.skipped_steps = nonfinite_.skipped_steps();
  outcome_.not_finite = nonfinite_.failure();
  outcome_.stopped_early = stopping_ && !progress_.is_over() && !nonfinite_.failed();
  return outcome_;
}

void Loop::damage() {
  if (!options_.testing_only_damage) return;
  for (std::size_t i = 0; i < replica_.size(); ++i)
    options_.testing_only_damage(progress_.position.step, replica_.tensor(i).name,
                                 replica_.weight(i));
}

}  // namespace topknot::train

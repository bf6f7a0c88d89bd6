// SPDX-License-Identifier: Apache-2.0
//
// The training loop of one rank:
//
//   pass       forward and backward, `accumulate` times; buckets set out as they fill
//   finish     wait for the exchange
//   apply      clip, decay, move the weights: the same bits on every rank
//   confer     one small message round: losses, bytes, and whether somebody wants to leave
//   look up    at the end of an epoch evaluate; now and then compare the ranks' weights, and
//              write a checkpoint
//
// With local steps a rank passes and applies alone, `local_steps` times, and the exchange and
// what the ranks tell each other come at the end of such a round. What looks at the weights comes between
// rounds, so an epoch's end and the run's end close a round early.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "topknot/error.h"
#include "train/checkpoint.h"
#include "train/comparison.h"
#include "train/engine_options.h"
#include "train/local_steps.h"
#include "train/nonfinite.h"
#include "train/pass_memory.h"
#include "train/recorder.h"
#include "train/replica_fields.h"
#include "train/train.h"
#include "train/updates.h"
#include "transports/control_channel.h"

namespace topknot::train {
namespace {

constexpr int kEngineChannel = 0;
constexpr int kControlChannel = 1;
constexpr int kStoreChannel = 2;
constexpr int kRecorderChannel = 3;
constexpr int kComparisonChannel = 4;
constexpr int kFailedCheckpoints = 3;  // in a row, and the run ends

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Trainer {
 public:
  Trainer(Transport& link, Job job, const TrainOptions& options, Observer& observer,
          Comparison& comparison)
      : link_(link),
        comparison_(comparison),
        notices_(),
        job_(prepared(std::move(job), notices_)),
        options_(options),
        observer_(observer),
        task_(make_task(job_, {link.rank(), link.size()})),
        replica_(task_->model(), link, engine_options(job_, kEngineChannel, pace())),
        optimizer_(make_optimizer(Spec::parse(job_.optimizer), sizes_behind_exchange())),
        rates_(Spec::parse(job_.lr_schedule), job_.lr, job_.warmup, job_.warmup_from,
               static_cast<double>(job_.epochs)),
        passes_(what_passes_leave()),
        control_(link, kControlChannel),
        recorder_(link, kRecorderChannel, job_, options.record),
        updates_(job_, replica_, link.size()),
        settling_(Settling::parse(job_.settle)) {
    if (job_.local_steps > 1) local_.emplace(job_, replica_, *optimizer_);
    if (updates_.on())
      replica_.before_ready = [this](std::size_t parameter) {
        updates_.prepare(parameter);
      };
    if (!options.checkpoints.empty()) {
      folder_.emplace(store::disk(), options.checkpoints.string());
      store_link_ = link.channel(kStoreChannel);
    }
  }

  Outcome run() {
    comparison_.require_equal(model_fields(replica_, *task_));
    resume();
    damage();
    comparison_.require_equal(state_fields(live()));
    start();
    const Stopwatch watch;
    while (!over() && !leaving_ && sound()) {
      step();
      if (!round_.empty() || !sound()) continue;
      if (settles()) settle();
      if (check_is_due()) check_equal();
      if (epoch_done()) end_epoch();
      keep();
    }
    if (job_.check_every > 0) check_equal();
    outcome_.recorded_steps = recorder_.finish();
    if (!leaving_ && !evaluated_ && sound()) evaluate();
    outcome_.seconds = watch.seconds();
    return finish();
  }

 private:
  static Job prepared(Job job, std::vector<std::string>& notices) {
    place_optimizer(job, notices);
    take_schedule(job, notices);
    if (clips_before(job))
      notices.push_back("each worker clips its own gradient, at clip / sqrt(workers).");
    return job;
  }

  Live live() {
    return {*task_, replica_,  *optimizer_,
            rates_, position_, local_ ? &local_->outer() : nullptr};
  }

  // Nothing for parameters that the memory's optimizer moves.
  std::vector<std::size_t> sizes_behind_exchange() {
    std::vector<std::size_t> sizes = replica_.sizes();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (replica_.engine().units(i) == Units::updates) sizes[i] = 0;
    return sizes;
  }

  std::vector<std::span<float>> what_passes_leave() {
    std::vector<std::span<float>> all;
    for (const auto& [name, tensor] : replica_.statistics())
      all.push_back(span_of(tensor));
    for (const auto& [name, tensor] : task_->carried()) all.push_back(span_of(tensor));
    return all;
  }

  // ---- where training stands

  std::uint64_t samples_per_step() const {
    return task_->samples_per_pass() * static_cast<std::uint64_t>(job_.accumulate);
  }
  std::uint64_t steps_per_epoch() const {
    return std::max<std::uint64_t>(task_->train_samples() / samples_per_step(), 1);
  }
  Pace pace() const { return Pace::of(job_, steps_per_epoch()); }
  bool over() const {
    const auto limit = static_cast<std::uint64_t>(job_.steps);
    return position_.epoch >= static_cast<std::uint64_t>(job_.epochs) ||
           (limit > 0 && position_.step >= limit);
  }
  bool round_done() const {
    return round_.size() >= static_cast<std::size_t>(job_.local_steps) || epoch_done() ||
           over();
  }
  bool epoch_done() const {
    return position_.sample + samples_per_step() > task_->train_samples();
  }
  double epochs_so_far() const {
    const double share = static_cast<double>(position_.sample) /
                         static_cast<double>(task_->train_samples());
    return static_cast<double>(position_.epoch) + std::min(share, 1.0);
  }

  // The steps before may have been larger or smaller than those to come.
  std::uint64_t steps_to_come(std::uint64_t per_epoch) const {
    const auto epochs = static_cast<std::uint64_t>(job_.epochs);
    if (position_.epoch >= epochs) return 0;
    const std::uint64_t after = (epochs - position_.epoch - 1) * per_epoch;
    if (position_.sample == 0) return per_epoch + after;
    return (task_->train_samples() - std::min(position_.sample, task_->train_samples())) /
               samples_per_step() +
           after;
  }

  void start() {
    Start start;
    for (std::size_t i = 0; i < replica_.size(); ++i)
      start.parameters += replica_.weight(i).size();
    start.train_samples = task_->train_samples();
    start.test_samples = task_->test_samples();
    start.steps_per_epoch = steps_per_epoch();
    start.steps = position_.step + steps_to_come(start.steps_per_epoch);
    if (job_.steps > 0)
      start.steps = std::min(start.steps, static_cast<std::uint64_t>(job_.steps));
    start.first_step = looked_ = checked_ = position_.step;
    planned_ = start.steps - std::min(start.steps, start.first_step);
    const auto ranks = static_cast<std::uint64_t>(link_.size());
    start.dense_bytes = 8 * start.parameters * (ranks - 1) / ranks;
    start.buckets = replica_.engine().buckets();
    start.gradient_bytes = start.parameters * sizeof(float);
    start.engine_bytes = replica_.engine().memory_bytes();
    start.notices = notices_;
    outcome_.dense_bytes_per_step = static_cast<double>(start.dense_bytes);
    first_step_ = position_.step;
    recorder_.plan(start.first_step, start.steps);
    observer_.on_start(start);
  }

  // ---- a step

  void step() {
    const Stopwatch watch;
    StepRecord record;
    record.step = position_.step;
    record.epoch = position_.epoch;
    record.lr = rates_.at(epochs_so_far());
    record.samples = samples_per_step();
    if (round_.empty()) {
      passes_.keep();
      round_start_ = position_;
      fault_.reset();
    }
    if (local_ && round_.empty()) local_->begin();
    const double began = link_.now();
    pass(record);
    if (!local_) record.report = replica_.engine().finish();
    record.finite = record.report.finite && apply(record.lr);
    if (!record.finite) passes_.restore();
    if (!record.finite && local_ && !fault_) fault_ = find_in_gradients(replica_);
    ++position_.step;
    round_.push_back(std::move(record));
    const bool done = round_done();
    if (local_) round_.back().report = local_report(began, done);
    if (done) confer();
    round_.back().seconds = watch.seconds();
    if (done) note();
  }

  // Of a local step; the last of a round has the exchange in it. All steps of a round are
  // applied or none is.
  StepReport local_report(double began, bool done) {
    StepReport report;
    if (done && !fault_ && aborts()) fault_ = find_in_weights(replica_);
    if (done) report = local_->exchange();
    if (!report.finite) {
      passes_.restore();
      for (StepRecord& record : round_) record.finite = false;
    }
    const double ended = done ? report.start + report.seconds : link_.now();
    report.start = began;
    report.seconds = ended - began;
    return report;
  }

  void pass(StepRecord& record) {
    const Stopwatch watch;
    const bool recorded = recorder_.wants(record.step);
    const bool held = recorded || local_ || updates_.holds_gradients();
    local_ ? local_->clear_gradients() : replica_.engine().begin(record.lr);
    for (std::int64_t i = 0; i < job_.accumulate; ++i) {
      const torch::Tensor one =
          task_->loss(position_) / static_cast<double>(job_.accumulate);
      position_.sample += task_->samples_per_pass();
      replica_.backward(one, i + 1 == job_.accumulate && !held);
      record.loss += one.item<double>();
    }
    record.compute_seconds = watch.seconds();
    // Nothing has set out yet, so the gradients are still this rank's own.
    if (recorded) recorder_.take(record.step, replica_);
    if (held && updates_.on()) updates_.prepare_all();
  }

  // False, and nothing is moved, where a gradient is not finite, as only this rank's own can
  // be: the engine has seen to the others. Updates were clipped before they were exchanged.
  bool apply(double lr) {
    const double clip = updates_.on() || clips_before(job_) ? 0 : job_.clip;
    const double squares = clip > 0 || local_ ? replica_.gradient_squares() : 0;
    if (!std::isfinite(squares)) return false;
    const auto factor = static_cast<float>(clip_factor(squares, clip));
    optimizer_->begin_step();
    for (std::size_t i = 0; i < replica_.size(); ++i) {
      if (replica_.engine().units(i) == Units::updates) {
        updates_.apply(i, lr);
        continue;
      }
      optimizer_->apply(i, replica_.weight(i), replica_.gradient(i),
                        {.lr = lr,
                         .decay = weight_decay_of(job_, replica_.tensor(i)),
                         .scale = factor});
    }
    return true;
  }

  // ---- settling

  bool settles() const {
    if (!updates_.on()) return false;
    if (settling_.every > 0 && position_.step % settling_.every == 0) return true;
    const bool last_epoch =
        position_.epoch + 1 == static_cast<std::uint64_t>(job_.epochs) && epoch_done();
    return settling_.at_end && (over() || last_epoch);
  }

  // One dense exchange of all residuals. A sum that is not finite is not applied.
  void settle() {
    const StepReport report = replica_.engine().settle();
    outcome_.settle_bytes += report.sent_bytes;
    if (!report.finite) return;
    for (std::size_t i = 0; i < replica_.size(); ++i)
      if (replica_.engine().units(i) == Units::updates) updates_.apply(i, 0);
  }

  // Of all steps since the last time, which is one but for local steps.
  void confer() {
    std::vector<double> mine = {observer_.asked_to_leave() ? 1.0 : 0.0};
    for (StepRecord& record : round_) {
      mine.insert(mine.end(), {record.loss, record.finite ? 1.0 : 0.0,
                               static_cast<double>(record.report.sent_bytes)});
      record.loss = 0;
    }
    for (const std::vector<double>& one : control_.gather(mine)) {
      leaving_ |= one[0] != 0;
      auto said = one.begin() + 1;
      for (StepRecord& record : round_) {
        record.loss += *said++;
        record.finite &= *said++ != 0;
        record.sent_bytes =
            std::max(record.sent_bytes, static_cast<std::uint64_t>(*said++));
      }
    }
    for (StepRecord& record : round_) record.loss /= link_.size();
  }

  void note() {
    damage();
    judge();
    for (const StepRecord& record : round_) {
      outcome_.sent_bytes_per_step += static_cast<double>(record.sent_bytes);
      outcome_.exposed_seconds_per_step += record.report.exposed_seconds;
      busy_seconds_ += record.report.busy_seconds;
      if (record.finite) {
        epoch_loss_ += record.loss;
        ++epoch_steps_;
      }
      observer_.on_step(record);
    }
    round_.clear();
    evaluated_ = false;
  }

  void damage() {
    if (!options_.testing_only_damage) return;
    for (std::size_t i = 0; i < replica_.size(); ++i)
      options_.testing_only_damage(position_.step, replica_.tensor(i).name,
                                   replica_.weight(i));
  }

  // ---- what is not finite

  bool aborts() const { return job_.nonfinite == "abort"; }
  bool sound() const { return outcome_.not_finite.empty(); }

  // After every round; all ranks come to the same.
  void judge() {
    const auto bad = std::ranges::find(round_, false, &StepRecord::finite);
    if (bad == round_.end()) return;
    const auto skipped = std::ranges::count(round_, false, &StepRecord::finite);
    outcome_.skipped_steps += static_cast<std::uint64_t>(skipped);
    if (!aborts()) {
      outcome_.not_finite =
          too_many_skipped(outcome_.skipped_steps, planned_, job_.skip_limit);
      return;
    }
    if (!local_) fault_ = find_again();
    outcome_.not_finite =
        step_not_finite(bad->step, describe(fault_, replica_, control_));
  }

  // The engine has cleared the gradients of a step that was not finite. The same pass makes
  // the same ones: the weights have not moved, and what passes leave has been brought back.
  std::optional<NotFinite> find_again() {
    for (std::size_t i = 0; i < replica_.size(); ++i)
      std::ranges::fill(replica_.gradient(i), 0.0F);
    Position at = round_start_;
    for (std::int64_t i = 0; i < job_.accumulate; ++i) {
      replica_.backward(task_->loss(at) / static_cast<double>(job_.accumulate), false);
      at.sample += task_->samples_per_pass();
    }
    return find_in_gradients(replica_);
  }

  void judge_end() {
    if (sound() && !leaving_)
      outcome_.not_finite = losses_not_finite(
          epoch_steps_ > 0 ? mean_loss() : last_train_loss_, last_test_loss_);
  }

  double mean_loss() const {
    return epoch_steps_ > 0 ? epoch_loss_ / static_cast<double>(epoch_steps_)
                            : std::numeric_limits<double>::quiet_NaN();
  }

  // ---- whether the ranks are still the same

  bool check_is_due() const {
    const auto every = static_cast<std::uint64_t>(job_.check_every);
    return every > 0 && position_.step / every > checked_ / every;
  }

  // Between rounds, when they should be.
  void check_equal() {
    if (checked_ == position_.step) return;
    const std::vector<Difference> found = comparison_.differences(state_fields(live()));
    if (!found.empty()) throw DriftError(position_.step, checked_, found);
    checked_ = position_.step;
  }

  // ---- the end of an epoch

  void end_epoch() {
    EpochRecord record;
    record.epoch = position_.epoch;
    record.step = position_.step;
    record.train_loss = last_train_loss_ = mean_loss();
    record.lr = rates_.at(epochs_so_far());
    const bool last = position_.epoch + 1 == static_cast<std::uint64_t>(job_.epochs);
    const auto every = static_cast<std::uint64_t>(job_.evaluate_every);
    if (last || (every > 0 && (position_.epoch + 1) % every == 0)) {
      record.test_loss = evaluate();
      record.evaluated = true;
      record.metric = outcome_.metric;
      record.others = others_;
    }
    record.seconds = epoch_watch_.seconds();
    ++position_.epoch;
    position_.sample = 0;
    epoch_loss_ = 0;
    epoch_steps_ = 0;
    epoch_ended_ = true;
    observer_.on_epoch(record);
    epoch_watch_ = {};
  }

  // All ranks judge with the mean of their running statistics.
  double evaluate() {
    for (const auto& [name, tensor] : replica_.statistics())
      control_.average(span_of(tensor));
    const std::vector<double> sums = control_.sum(task_->evaluate());
    outcome_.metric = task_->metric(sums);
    others_ = task_->others(sums);
    rates_.learn(task_->score(sums));
    evaluated_ = true;
    last_test_loss_ = sums[1] / sums[0];
    return last_test_loss_;
  }

  // ---- checkpoints

  std::string config() const {
    std::string text;
    for (const Key& key : keys()) text += get(job_, key.name) + " ";
    return text;
  }

  void resume() {
    if (!folder_) return;
    folder_->take(*store_link_);
    if (!options_.resume) return;
    const store::Loaded from = folder_->load(*store_link_, replica_.fingerprint());
    restore(from, live());
    for (const std::string& sentence : from.passed_over) notices_.push_back(sentence);
    if (from.resized)
      notices_.push_back("the checkpoint was made by " +
                         std::to_string(from.manifest.shards.size()) +
                         " workers: what they owed was shared out anew, its mean kept.");
  }

  // At the first end of a round at or after the step it is due.
  void keep() {
    const bool ended = std::exchange(epoch_ended_, false);
    const std::uint64_t last = std::exchange(looked_, position_.step);
    if (!folder_) return;
    const auto every = static_cast<std::uint64_t>(job_.checkpoint_every);
    const bool due = every > 0 ? position_.step / every > last / every : ended;
    if (!due && !leaving_ && !over()) return;
    if (job_.check_every > 0) check_equal();
    const Stopwatch watch;
    try {
      auto [shared, own] = snapshot(live());
      folder_->save(*store_link_, position_.step, std::move(shared), std::move(own),
                    {config(), replica_.fingerprint()});
      failed_ = 0;
      observer_.on_checkpoint(position_.step, watch.seconds());
    } catch (const StorageError& error) {
      if (leaving_ || ++failed_ == kFailedCheckpoints) throw;
      observer_.on_checkpoint_failed(error.what());
    }
  }

  Outcome finish() {
    judge_end();
    const double steps =
        static_cast<double>(std::max<std::uint64_t>(position_.step - first_step_, 1));
    outcome_.steps = position_.step;
    outcome_.epochs = position_.epoch;
    const double exposed = outcome_.exposed_seconds_per_step;
    outcome_.overlap =
        busy_seconds_ > 0 ? std::clamp(1 - exposed / busy_seconds_, 0.0, 1.0) : 0;
    outcome_.sent_bytes_per_step += static_cast<double>(outcome_.settle_bytes);
    outcome_.sent_bytes_per_step /= steps;
    outcome_.exposed_seconds_per_step /= steps;
    outcome_.weights_hash = replica_.weights_hash();
    outcome_.left_early = leaving_ && !over() && sound();
    return outcome_;
  }

  Transport& link_;
  Comparison& comparison_;
  std::vector<std::string> notices_;
  const Job job_;
  const TrainOptions& options_;
  Observer& observer_;
  std::unique_ptr<Task> task_;
  Replica replica_;
  std::unique_ptr<Optimizer> optimizer_;
  Rates rates_;
  PassMemory passes_;  // at the start of the round
  ControlChannel control_;
  Recorder recorder_;
  Updates updates_;
  const Settling settling_;
  std::optional<LocalSteps> local_;  // where they are more than one
  std::optional<store::CheckpointFolder> folder_;
  std::unique_ptr<Transport> store_link_;

  Position position_;
  std::vector<StepRecord> round_;  // that the ranks have not told each other of
  std::uint64_t looked_ = 0;  // the step after which a checkpoint was last thought of
  std::uint64_t checked_ =
      0;  // the step after which all ranks were last seen to be equal
  std::uint64_t first_step_ = 0;
  std::uint64_t planned_ = 0;  // steps of this run
  Position round_start_;
  std::optional<NotFinite> fault_;  // this rank's, in the round
  Outcome outcome_;
  std::vector<Metric> others_;  // of the last evaluation
  double busy_seconds_ = 0;
  double epoch_loss_ = 0;
  std::uint64_t epoch_steps_ = 0;  // that were applied
  double last_train_loss_ = 0;
  double last_test_loss_ = 0;
  Stopwatch epoch_watch_;
  bool epoch_ended_ = false;
  bool evaluated_ = false;
  bool leaving_ = false;
  int failed_ = 0;
};

}  // namespace

Outcome train(Transport& link, const Job& job, const TrainOptions& options,
              Observer& observer) {
  Comparison comparison(link, kComparisonChannel);
  Fields fields = fields_of(job);
  for (Field& field : build_fields()) fields.push_back(std::move(field));
  for (Field& field : fields_of(options)) fields.push_back(std::move(field));
  comparison.require_equal(fields);
  check(job);
  at::set_num_threads(static_cast<int>(job.threads));
  return Trainer(link, job, options, observer, comparison).run();
}

}  // namespace topknot::train

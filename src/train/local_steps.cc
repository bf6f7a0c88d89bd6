// SPDX-License-Identifier: Apache-2.0
#include "train/local_steps.h"

#include <algorithm>
#include <cmath>

#include "train/stopwatch.h"

namespace topknot::train {

LocalSteps::LocalSteps(const Job& job, Replica& replica, Transport& link)
    : job_(job),
      replica_(replica),
      link_(link),
      ranks_(job.exchange == "updates" ? link.size() : 1),
      clip_(job.clip * std::sqrt(static_cast<double>(ranks_))),
      inner_(make_optimizer(Spec::parse(job.optimizer), replica.sizes())),
      outer_(make_optimizer(Spec::parse(job.outer), replica.sizes())) {
  for (const std::size_t size : replica.sizes()) start_.emplace_back(size);
  if (job.exchange == "updates")
    second_moments_.emplace(*inner_, replica, link, job.local_steps);
}

void LocalSteps::begin(double /*lr*/, bool opens_round) {
  if (opens_round) {
    nonfinite_.reset();
    for (std::size_t i = 0; i < replica_.size(); ++i)
      std::ranges::copy(replica_.weight(i), start_[i].begin());
  }
  step_began_ = link_.now();
  for (std::size_t i = 0; i < replica_.size(); ++i)
    std::ranges::fill(replica_.gradient(i), 0.0F);
}

void LocalSteps::finish(std::span<StepRecord> round, bool closes_round) {
  StepRecord& step = round.back();
  const Stopwatch watch;
  step.finite = step_alone(step.lr);
  step.optimizer_seconds = watch.seconds();
  if (!step.finite && !nonfinite_) nonfinite_ = find_in_gradients(replica_);
  if (closes_round) {
    if (!nonfinite_ && job_.nonfinite == "abort") nonfinite_ = find_in_weights(replica_);
    step.report = exchange();
    if (!step.report.finite)
      for (StepRecord& one : round) one.finite = false;
  }
  const double ended =
      closes_round ? step.report.start + step.report.seconds : link_.now();
  step.report.start = step_began_;
  step.report.seconds = ended - step_began_;
}

// False, and the weights stay, where this rank's own gradient is not finite.
bool LocalSteps::step_alone(double lr) {
  const double squares = replica_.gradient_squares();
  if (!std::isfinite(squares)) return false;
  apply_gradients(job_, *inner_, replica_, lr, clip_factor(squares, clip_), ranks_);
  return true;
}

std::optional<NonfiniteValues> LocalSteps::locate_nonfinite(const Position&) {
  return nonfinite_;
}

StepReport LocalSteps::exchange() {
  replica_.engine().begin(job_.outer_lr);
  hand_over();
  StepReport report = replica_.engine().finish();
  report.exposed_seconds = report.seconds;  // there is no backward pass to hide behind
  report.overlap = 0;
  report.finite ? move() : inner_->reset();
  average_squares(report);
  return report;
}

// In the order of a backward pass: a bucket is under way while the next is made.
void LocalSteps::hand_over() {
  for (std::size_t i = replica_.size(); i-- > 0;) {
    const std::span<float> weight = replica_.weight(i);
    const std::span<float> gradient = replica_.gradient(i);
    for (std::size_t at = 0; at < weight.size(); ++at) {
      gradient[at] = start_[i][at] - weight[at];
      weight[at] = start_[i][at];
    }
    replica_.engine().ready(i);
  }
}

void LocalSteps::average_squares(StepReport& report) {
  if (!second_moments_) return;
  const double began = link_.now();
  report.sent_bytes += second_moments_->after_round(replica_.engine().steps());
  const double took = link_.now() - began;
  report.seconds += took;
  report.exposed_seconds += took;
}

std::uint64_t LocalSteps::settle() {
  const StepReport report = replica_.engine().settle();
  if (report.finite) move();
  return report.sent_bytes;
}

void LocalSteps::move() {
  outer_->begin_step();
  for (std::size_t i = 0; i < replica_.size(); ++i)
    outer_->apply(i, replica_.weight(i), replica_.gradient(i), {.lr = job_.outer_lr});
}

}  // namespace topknot::train

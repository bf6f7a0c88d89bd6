// SPDX-License-Identifier: Apache-2.0
#include "train/every_step.h"

#include <algorithm>

#include "job/engine_options.h"
#include "train/passes.h"
#include "train/stopwatch.h"

namespace topknot::train {
namespace {

// The optimizer keeps nothing for parameters that the engine's memory moves.
std::vector<std::size_t> sizes_for_optimizer(Replica& replica) {
  std::vector<std::size_t> sizes = replica.sizes();
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (replica.engine().units(i) == Units::updates) sizes[i] = 0;
  return sizes;
}

}  // namespace

EveryStep::EveryStep(const Job& job, Task& task, Replica& replica, int ranks)
    : job_(job),
      task_(task),
      replica_(replica),
      updates_(job, replica, ranks),
      clip_(updates_.on() || clips_before(job) ? 0 : job.clip),
      optimizer_(
          make_optimizer(Spec::parse(job.optimizer), sizes_for_optimizer(replica))) {
  if (updates_.on())
    replica_.before_ready = [this](std::size_t parameter) {
      updates_.prepare(parameter);
    };
}

void EveryStep::begin(double lr, bool /*opens_round*/) { replica_.engine().begin(lr); }

void EveryStep::prepare_held() {
  if (updates_.on()) updates_.prepare_all();
}

void EveryStep::finish(std::span<StepRecord> round, bool /*closes_round*/) {
  StepRecord& step = round.back();
  step.report = replica_.engine().finish();
  step.finite = step.report.finite;
  if (!step.finite) return;
  const Stopwatch watch;
  const double squares = clip_ > 0 ? replica_.gradient_squares() : 0;
  apply_gradients(job_, *optimizer_, replica_, step.lr, clip_factor(squares, clip_));
  apply_updates(step.lr);
  step.optimizer_seconds = watch.seconds();
}

void EveryStep::apply_updates(double lr) {
  for (std::size_t i = 0; i < replica_.size(); ++i)
    if (replica_.engine().units(i) == Units::updates) updates_.apply(i, lr);
}

// The engine has cleared the gradients. The same passes make them again: the weights have not
// moved, and the state that passes leave behind has been restored.
std::optional<NonfiniteValues> EveryStep::locate_nonfinite(const Position& round_start) {
  for (std::size_t i = 0; i < replica_.size(); ++i)
    std::ranges::fill(replica_.gradient(i), 0.0F);
  Position at = round_start;
  run_passes(job_, task_, replica_, at, /*overlap=*/false);
  return find_in_gradients(replica_);
}

std::uint64_t EveryStep::settle() {
  const StepReport report = replica_.engine().settle();
  if (report.finite) apply_updates(0);
  return report.sent_bytes;
}

}  // namespace topknot::train

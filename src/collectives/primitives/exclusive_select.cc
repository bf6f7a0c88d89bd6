// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/exclusive_select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/merge.h"
#include "core/select.h"

namespace topknot::collective {
namespace {

constexpr float kLeast = std::numeric_limits<float>::denorm_min();

}  // namespace

bool ExclusiveSelect::Candidates::select(std::span<float> residual, std::span<float> grad,
                                         std::size_t k, Sparse& out) {
  if (floor) return core::fold_and_select(residual, grad, *floor, out);
  core::ExactTopK exact;
  const bool finite = exact.select(residual, grad, k, out);
  core::drop_zeros(out);
  return finite;
}

ExclusiveSelect::ExclusiveSelect(Params& params)
    : published_(params.choice("controller", {"exact", "published"},
                               "k exactly, or by a threshold scaled by constants") ==
                 "published") {}

void ExclusiveSelect::run(StepGuard& guard, ResidualVector& residual,
                          std::span<float> grad, Region mine, std::size_t k,
                          Sparse& held) {
  if (k == 0) {
    held.clear();
    return guard.fold(residual, grad);
  }
  if (k < residual.size() && !published_)
    return select_exactly(guard, residual.host(), grad, mine, k, held);
  if (threshold_ == 0 && published_)
    threshold_ = 1 / (2 * std::sqrt(static_cast<float>(k)));
  candidates_.floor = k < residual.size() ? threshold_ : 0.0F;
  guard.select_inside(candidates_, mine, residual.host(), grad, k, held);
}

// The floor and the total are the same on all ranks, so they decide alike. What reaches
// one floor everywhere has the k largest of all in it as soon as there are k.
void ExclusiveSelect::select_exactly(StepGuard& guard, std::span<float> residual,
                                     std::span<float> grad, Region mine, std::size_t k,
                                     Sparse& held) {
  MessageChannel& channel = guard.channel();
  candidates_.floor.reset();
  if (threshold_ > 0) candidates_.floor = std::max(threshold_ * (1 - slack_), kLeast);
  guard.select_inside(candidates_, mine, residual, grad, k, held);
  global_topk_.keep_largest(channel, held, k);
  if (!channel.finite()) return;
  const bool missed = candidates_.floor && global_topk_.total() < k;
  if (missed) {
    candidates_.floor.reset();
    if (!candidates_.select(part_of(residual, mine), {}, k, held))
      channel.report_nonfinite();
    for (std::uint32_t& position : held.index)
      position += static_cast<std::uint32_t>(mine.begin);
    global_topk_.keep_largest(channel, held, k);
  }
  const float last = threshold_;
  threshold_ = global_topk_.threshold();
  if (last > 0 && threshold_ > 0) aim(last, missed, k);
}

// A quarter more candidates than wanted: that is cheap, and missing is not.
void ExclusiveSelect::aim(float last, bool missed, std::size_t k) {
  if (missed) {
    slack_ = std::max(2 * slack_, 1.5F * (1 - threshold_ / last));
  } else {
    const auto spare = static_cast<float>(k) / 4 + 256;
    const auto found = static_cast<float>(global_topk_.total() - k + 1);
    slack_ =
        (1 - last * (1 - slack_) / threshold_) * std::clamp(spare / found, 0.5F, 2.0F);
  }
  slack_ = std::clamp(slack_, 0.001F, 0.5F);
}

std::uint64_t ExclusiveSelect::most(std::uint64_t n, std::uint64_t k) const {
  return published_ ? n : std::min(n, k);
}

// As published: the middle rule was meant for counts above k.
void ExclusiveSelect::learn(std::uint64_t selected, std::uint64_t k) {
  if (!published_ || k == 0) return;
  const double ratio = static_cast<double>(selected) / static_cast<double>(k);
  threshold_ *= ratio > 1.1 ? 1.005F : ratio > 0.909 ? 1.00125F : 0.995F;
}

void ExclusiveSelect::visit_state(StateVisitor& visitor) {
  visitor.field("threshold", threshold_);
  visitor.field("slack", slack_);
  global_topk_.visit_state(visitor);
}

}  // namespace topknot::collective

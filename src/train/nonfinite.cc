// SPDX-License-Identifier: Apache-2.0
#include "train/nonfinite.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"

namespace topknot::train {
namespace {

/// In `values`, which belong to `parameter`.
std::optional<NonfiniteValues> find(std::span<const float> values, std::size_t parameter,
                                    bool in_weights) {
  NonfiniteValues found{in_weights, parameter, 0, 0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    if (found.count++ == 0) found.offset = i;
  }
  if (found.count == 0) return std::nullopt;
  return found;
}

std::string step_not_finite(std::uint64_t step, const std::string& where) {
  return "Step " + std::to_string(step) + ", counted from 0, is not finite: " + where +
         ". It was not applied. With nonfinite=skip such steps are passed over.";
}

/// Empty where the limit, a share of the `planned` steps, allows it.
std::string too_many_skipped(std::uint64_t skipped, std::uint64_t planned, double limit) {
  if (static_cast<double>(skipped) <= limit * static_cast<double>(planned)) return "";
  return std::to_string(skipped) + " of the run's " + std::to_string(planned) +
         " steps were not finite and were skipped, which is more than skip_limit=" +
         core::shortest(limit) + " allows.";
}

}  // namespace

std::optional<NonfiniteValues> find_in_gradients(Replica& replica) {
  for (std::size_t i = 0; i < replica.size(); ++i)
    if (auto found = find(replica.gradient(i), i, false)) return found;
  return std::nullopt;
}

std::optional<NonfiniteValues> find_in_weights(Replica& replica) {
  for (std::size_t i = 0; i < replica.size(); ++i)
    if (auto found = find(replica.weight(i), i, true)) return found;
  return std::nullopt;
}

std::string describe(const std::optional<NonfiniteValues>& mine, const Replica& replica,
                     ControlChannel& control) {
  const NonfiniteValues own = mine.value_or(NonfiniteValues{});
  const std::vector<std::vector<double>> all = control.gather(std::vector<double>{
      own.in_weights ? 1.0 : 0.0, static_cast<double>(own.parameter),
      static_cast<double>(own.offset), static_cast<double>(own.count)});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::vector<double>& one = all[rank];
    if (one[3] == 0) continue;
    const auto number = [&](std::size_t i) {
      return std::to_string(static_cast<std::uint64_t>(one[i]));
    };
    return "on rank " + std::to_string(rank) +
           (one[0] != 0 ? " the weights of " : " the gradient of ") +
           replica.tensor(static_cast<std::size_t>(one[1])).name +
           (one[3] == 1 ? " has 1 value that is"
                        : " has " + number(3) + " values that are") +
           " NaN or infinite, " + (one[3] == 1 ? "" : "the first ") + "at " + number(2);
  }
  return "every rank's own gradient is finite, but their sum, or one with a residual, "
         "overflows";
}

void NonfinitePolicy::judge(std::span<const StepRecord> round,
                            const std::function<std::string()>& where) {
  const auto first = std::ranges::find(round, false, &StepRecord::finite);
  if (first == round.end()) return;
  skipped_ +=
      static_cast<std::uint64_t>(std::ranges::count(round, false, &StepRecord::finite));
  failure_ = job_.nonfinite == "abort"
                 ? step_not_finite(first->step, where())
                 : too_many_skipped(skipped_, planned_, job_.skip_limit);
}

void NonfinitePolicy::judge_losses(double train_loss, double test_loss) {
  if (!std::isfinite(train_loss))
    failure_ = "The training loss of the last epoch is not finite.";
  else if (!std::isfinite(test_loss))
    failure_ = "The test loss at the end is not finite.";
}

}  // namespace topknot::train

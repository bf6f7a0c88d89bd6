// SPDX-License-Identifier: Apache-2.0
#include "train/nonfinite.h"

#include <cmath>
#include <span>

#include "core/text.h"

namespace topknot::train {
namespace {

/// In `values`, which belong to `parameter`.
std::optional<NotFinite> find(std::span<const float> values, std::size_t parameter,
                              bool in_weights) {
  NotFinite found{in_weights, parameter, 0, 0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    if (found.count++ == 0) found.offset = i;
  }
  if (found.count == 0) return std::nullopt;
  return found;
}

}  // namespace

std::optional<NotFinite> find_in_gradients(Replica& replica) {
  for (std::size_t i = 0; i < replica.size(); ++i)
    if (auto found = find(replica.gradient(i), i, false)) return found;
  return std::nullopt;
}

std::optional<NotFinite> find_in_weights(Replica& replica) {
  for (std::size_t i = 0; i < replica.size(); ++i)
    if (auto found = find(replica.weight(i), i, true)) return found;
  return std::nullopt;
}

std::string describe(const std::optional<NotFinite>& mine, const Replica& replica,
                     ControlChannel& control) {
  const NotFinite said = mine.value_or(NotFinite{});
  const std::vector<std::vector<double>> all = control.gather(std::vector<double>{
      said.in_weights ? 1.0 : 0.0, static_cast<double>(said.parameter),
      static_cast<double>(said.offset), static_cast<double>(said.count)});
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

std::string step_not_finite(std::uint64_t step, const std::string& where) {
  return "Step " + std::to_string(step) + ", counted from 0, is not finite: " + where +
         ". It was not applied. With nonfinite=skip such steps are passed over.";
}

std::string too_many_skipped(std::uint64_t skipped, std::uint64_t planned, double limit) {
  if (static_cast<double>(skipped) <= limit * static_cast<double>(planned)) return "";
  return std::to_string(skipped) + " of the run's " + std::to_string(planned) +
         " steps were not finite and were skipped, which is more than skip_limit=" +
         core::shortest(limit) + " allows.";
}

std::string losses_not_finite(double train_loss, double test_loss) {
  if (!std::isfinite(train_loss))
    return "The training loss of the last epoch is not finite.";
  if (!std::isfinite(test_loss)) return "The test loss at the end is not finite.";
  return "";
}

}  // namespace topknot::train

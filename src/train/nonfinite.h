// SPDX-License-Identifier: Apache-2.0
//
// Where a step went wrong that was not finite: for the sentence that a run ends with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/replica.h"
#include "transports/control_channel.h"

namespace topknot::train {

/// Values of one parameter that are NaN or infinite, on one rank.
struct NotFinite {
  bool in_weights = false;  ///< else in the gradient
  std::size_t parameter = 0;
  std::uint64_t offset = 0;  ///< of the first
  std::uint64_t count = 0;
};

/// In the first parameter that has any.
std::optional<NotFinite> find_in_gradients(Replica& replica);
std::optional<NotFinite> find_in_weights(Replica& replica);

/// "on rank 1 the gradient of fc1.weight has 3 values that are NaN or infinite, the first at
/// 17": the first rank's finding. All ranks call it with what they have found themselves.
std::string describe(const std::optional<NotFinite>& mine, const Replica& replica,
                     ControlChannel& control);

// ---- what a run that ends with an exit code of its own says; empty where it need not

std::string step_not_finite(std::uint64_t step, const std::string& where);
/// As soon as more steps have been skipped than `limit`, a share of those `planned`.
std::string too_many_skipped(std::uint64_t skipped, std::uint64_t planned, double limit);
std::string losses_not_finite(double train_loss, double test_loss);

}  // namespace topknot::train

// SPDX-License-Identifier: Apache-2.0
//
// Steps that are not finite: where their values are, and what they do to the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "train/replica.h"
#include "train/train.h"
#include "transports/control_channel.h"

namespace topknot::train {

/// Values of one parameter that are NaN or infinite, on one rank.
struct NonfiniteValues {
  bool in_weights = false;  ///< else in the gradient
  std::size_t parameter = 0;
  std::uint64_t offset = 0;  ///< of the first
  std::uint64_t count = 0;
};

/// In the first parameter that has any.
std::optional<NonfiniteValues> find_in_gradients(Replica& replica);
std::optional<NonfiniteValues> find_in_weights(Replica& replica);

/// "on rank 1 the gradient of fc1.weight has 3 values that are NaN or infinite, the first at
/// 17": of the first rank that has any. All ranks call it with their own.
std::string describe(const std::optional<NonfiniteValues>& mine, const Replica& replica,
                     ControlChannel& control);

/// Whether steps that are not finite end the run or are skipped (the job's `nonfinite` and
/// `skip_limit`). It is told what all ranks know, so all ranks decide alike.
class NonfinitePolicy {
 public:
  /// `job` must outlive the object.
  explicit NonfinitePolicy(const Job& job) : job_(job) {}

  /// The steps of this run, of which the job lets a share be skipped.
  void plan(std::uint64_t steps) { planned_ = steps; }
  /// After every round. `where` is called on all ranks or on none, and says where the values are.
  void judge(std::span<const StepRecord> round,
             const std::function<std::string()>& where);
  /// After a run that has come to its end.
  void judge_losses(double train_loss, double test_loss);

  /// Why the run failed, in a sentence; empty: it did not.
  const std::string& failure() const noexcept { return failure_; }
  bool failed() const noexcept { return !failure_.empty(); }
  std::uint64_t skipped_steps() const noexcept { return skipped_; }

 private:
  const Job& job_;
  std::uint64_t planned_ = 0;
  std::uint64_t skipped_ = 0;
  std::string failure_;
};

}  // namespace topknot::train
